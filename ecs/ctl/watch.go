package ctl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// withStepTimeout ends a context after the step's argument for, if it is given.
func withStepTimeout(ctx context.Context, st *step) (context.Context, context.CancelFunc) {
	if d := st.duration("for"); d > 0 {
		return context.WithTimeout(ctx, d)
	}
	return context.WithCancel(ctx)
}

// endedNormally says whether a stream ended by its time-out, by an interrupt, or by the server's end, and not by a
// fault.
func endedNormally(ctx context.Context, err error) bool {
	code := status.Code(err) // the time-out may end in the control first
	return err != nil && (ctx.Err() != nil || errors.Is(err, io.EOF) || code == codes.DeadlineExceeded ||
		code == codes.Canceled)
}

// follow calls write with the messages of a command's stream until it ends. err is that of opening the stream.
func follow[M any](
	ctx context.Context, s *Session, command string, in interface{ Recv() (*M, error) }, err error, write func(*M) error,
) error {
	for err == nil {
		var m *M
		if m, err = in.Recv(); err == nil {
			if err := write(m); err != nil {
				return err
			}
		}
	}
	if endedNormally(ctx, err) {
		return nil
	}
	return errorOf(command, s.cfg.Address, err)
}

// watchEvents writes events, a line each.
func (s *Session) watchEvents(ctx context.Context, st *step, req *ecsv1.WatchRequest) error {
	ctx, cancel := withStepTimeout(ctx, st)
	defer cancel()
	in, err := s.client.Watch(ctx, req)
	return follow(ctx, s, st.Command.GetName(), in, err, func(e *ecsv1.Event) error {
		if s.cfg.JSON {
			return s.writeJSON(e)
		}
		return writeEvent(s.cfg.Out, e)
	})
}

var severities = map[ecsv1.Severity]string{ecsv1.Severity_SEVERITY_WARNING: "WARNING ",
	ecsv1.Severity_SEVERITY_ERROR: "ERROR "}

func writeEvent(w io.Writer, e *ecsv1.Event) error {
	run := ""
	if e.GetRun() != 0 {
		run = fmt.Sprintf(" run %d", e.GetRun())
	}
	_, err := fmt.Fprintf(w, "%s%s %s %s: %s%s\n", formatMoment(e.GetAt()), run, e.GetKind(),
		stripControlChars(e.GetComponent()), severities[e.GetSeverity()], stripControlChars(e.GetText()))
	return err
}

// watchFigures writes the live figures: at a terminal it overwrites one line, else it writes a line for each snapshot.
// New alarms have lines of their own.
func (s *Session) watchFigures(ctx context.Context, st *step) error {
	ctx, cancel := withStepTimeout(ctx, st)
	defer cancel()
	every := uint32(500)
	if !s.cfg.OutIsTerminal {
		every = 1000
	}
	in, err := s.client.WatchSnapshots(ctx, &ecsv1.WatchSnapshotsRequest{IntervalMs: every})
	alarms := map[string]bool{}
	err = follow(ctx, s, doWatch, in, err, func(snap *ecsv1.Snapshot) (err error) {
		if s.cfg.JSON {
			return s.writeJSON(snap)
		}
		alarms, err = s.writeFigures(snap, alarms)
		return err
	})
	if s.cfg.OutIsTerminal && !s.cfg.JSON {
		fmt.Fprintln(s.cfg.Out)
	}
	return err
}

// writeFigures writes a snapshot, and the alarms in it that are not in before; it returns all alarms in it.
func (s *Session) writeFigures(snap *ecsv1.Snapshot, before map[string]bool) (now map[string]bool, err error) {
	now = map[string]bool{}
	begin, end := "", "\n"
	if s.cfg.OutIsTerminal {
		begin, end = "\r\x1b[K", ""
	}
	var alarms strings.Builder
	for _, a := range snap.GetAlarms() {
		key := a.GetRule() + " " + a.GetComponent()
		if now[key] = true; !before[key] {
			fmt.Fprintf(&alarms, "%s%s: %s. %s\n", severities[a.GetSeverity()], stripControlChars(a.GetComponent()),
				stripControlChars(a.GetWhat()), stripControlChars(a.GetAdvice()))
		}
	}
	_, err = fmt.Fprint(s.cfg.Out, begin, alarms.String(), figuresLine(snap), end)
	return now, err
}

// figuresLine formats the main figures of a snapshot in a line.
func figuresLine(s *ecsv1.Snapshot) string {
	f := s.GetTotal()
	run := ""
	if s.GetRun() != 0 {
		run = fmt.Sprintf(" %d", s.GetRun())
	}
	return fmt.Sprintf("%7.1f s  %s%s  %s  %.3f Gbit/s  in flight %d  re-sent %d", s.GetElapsedS(),
		stripControlChars(s.GetState()), run,
		FormatFrequency(f.GetEventRateHz()), f.GetThroughputBytesPerS()*8/1e9, f.GetMepsInFlight(),
		f.GetChunksResent())
}
