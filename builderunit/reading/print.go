package reading

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"

	"ringlet/builderunit/sink"
	"ringlet/event/selection"
)

// Options are the options of Print.
type Options struct {
	Name      string           // of the output, as the run has it
	Dir       string           // of the segments; empty: shmem.DefaultDir
	Wait      time.Duration    // how long to wait for the first buffer
	Format    selection.Format // of events
	WithData  bool             // with selection.FormatJSON: the bytes of the fragments too
	MaxEvents uint64           // how many events to print; 0: all to the end of the run
	// MayLose: builder units do not wait for the reader. Print counts the MEPs that they overwrite before it reads them.
	MayLose bool
}

// errEnough ends the reading after Options.MaxEvents events.
var errEnough = errors.New("enough")

// Print writes every event that the builder units of this host hand out under a name to out, until the run ends,
// MaxEvents are printed, or the reader of out is gone. At the end it writes one line with totals to errs. Errors: a
// *noOutputError, a *sink.EntryError, shmem.ErrWriterGone if a builder unit died, ctx's.
func Print(ctx context.Context, out, errs io.Writer, opts Options) error {
	p := &printer{opts: opts, out: bufio.NewWriterSize(out, 1<<16), errs: errs}
	b := &bufferReader{
		name:    opts.Name,
		dir:     opts.Dir,
		mayLose: opts.MayLose,
		onEntry: p.print,
		onLost:  p.printLost,
	}
	err := b.read(ctx, opts.Wait)
	switch {
	case errors.Is(err, syscall.EPIPE), errors.Is(err, io.ErrClosedPipe):
		return nil
	case errors.Is(err, errEnough):
		err = nil
	}
	if missing := (*noOutputError)(nil); errors.As(err, &missing) {
		return err
	}
	text := fmt.Sprintf("%d events of %d MEPs", p.events, p.meps)
	if p.superseded > 0 {
		text += fmt.Sprintf("; %d MEPs superseded: they come again in a higher attempt", p.superseded)
	}
	if p.lostMEPs > 0 {
		text += fmt.Sprintf("; %d MEPs were overwritten before they were read", p.lostMEPs)
	}
	if p.failedEvents > 0 {
		text += fmt.Sprintf("; %d events cannot be written in this format", p.failedEvents)
	}
	fmt.Fprintln(errs, text)
	return err
}

// printer writes entries.
type printer struct {
	opts     Options
	out      *bufio.Writer
	errs     io.Writer
	packet   selection.Packet
	renderer selection.Renderer
	text     []byte

	events, meps, superseded, lostMEPs, failedEvents uint64
}

// supersededRecord is the line of JSON about a MEP that does not count.
type supersededRecord struct {
	Run        uint32 `json:"run"`
	MEP        uint64 `json:"mep"`
	Attempt    uint32 `json:"attempt"`
	FirstEvent uint64 `json:"first_event"`
	Events     uint32 `json:"events"`
}

func (p *printer) print(buffer string, e sink.Entry) error {
	switch {
	case p.hasEnough(): // another buffer's goroutine has printed the last one
		return errEnough
	case e.Superseded:
		return p.printSuperseded(e)
	}
	p.meps++
	meta := selection.Meta{
		Run:     e.Run,
		MEP:     e.MEP,
		Attempt: e.Attempt,
		Builder: buffer,
	}
	if err := p.packet.Parse(meta, e.Packet); err != nil {
		return fmt.Errorf("MEP %d in %s: %w", e.MEP, buffer, err)
	}
	for event := range p.packet.Events() {
		if err := p.printEvent(&event); err != nil {
			return err
		}
		if p.hasEnough() {
			break
		}
	}
	if err := p.out.Flush(); err != nil || !p.hasEnough() {
		return err
	}
	return errEnough
}

// hasEnough says that MaxEvents are printed.
func (p *printer) hasEnough() bool { return p.opts.MaxEvents > 0 && p.events >= p.opts.MaxEvents }

func (p *printer) printEvent(e *selection.Event) (err error) {
	if p.opts.Format == selection.FormatJSON && !p.opts.WithData {
		for i := range e.Fragments {
			e.Fragments[i].Data = nil
		}
	}
	if p.text, err = p.renderer.AppendEvent(p.text[:0], p.opts.Format, e); err != nil {
		if p.failedEvents++; p.failedEvents == 1 {
			fmt.Fprintf(p.errs, "ringlet: event %d of run %d is left out, and others of its kind: %v\n", e.Number, e.Run, err)
		}
		return nil
	}
	p.events++
	_, err = p.out.Write(p.text)
	return err
}

// overwrittenRecord is the line of JSON about MEPs that were overwritten before they were read.
type overwrittenRecord struct {
	Builder string `json:"builder"`
	MEPs    uint64 `json:"meps"`
}

// printLost counts overwritten MEPs, and prints a line about them in JSON; other formats have none.
func (p *printer) printLost(buffer string, n uint64) error {
	if p.hasEnough() {
		return errEnough
	}
	p.lostMEPs += n
	if p.opts.Format != selection.FormatJSON {
		return nil
	}
	if err := json.NewEncoder(p.out).Encode(map[string]overwrittenRecord{"overwritten": {buffer, n}}); err != nil {
		return err
	}
	return p.out.Flush()
}

// printSuperseded counts a MEP that does not count, and prints a line about it in JSON; other formats have none.
func (p *printer) printSuperseded(e sink.Entry) error {
	p.superseded++
	if p.opts.Format != selection.FormatJSON {
		return nil
	}
	line := map[string]supersededRecord{"superseded": {e.Run, e.MEP, e.Attempt, e.FirstEvent, e.Events}}
	if err := json.NewEncoder(p.out).Encode(line); err != nil {
		return err
	}
	return p.out.Flush()
}
