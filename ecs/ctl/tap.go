package ctl

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"

	"ringlet/event"
	"ringlet/event/selection"
	tapv1 "ringlet/proto/ringlet/tap/v1"
)

// TapOptions select built events, and the format of output.
type TapOptions struct {
	selection.Spec
	Format    selection.Format // formats other than JSON ask for data even if Spec does not
	MaxEvents uint64           // end after this number; 0: no bound
	Duration  time.Duration    // end after this time; 0: no bound
}

// doTap is the name of the command in errors.
const doTap = "tap"

// samples is a stream of samples.
type samples interface {
	Recv() (*tapv1.Samples, error)
}

// Tap writes a sample of the events that the partition builds to Out, run after run, until the bounds of opts or the
// end of Out's reader. Then it writes a summary to Err.
func (s *Session) Tap(ctx context.Context, opts TapOptions) error {
	return s.tap(ctx, opts, func(ctx context.Context, sel *tapv1.Selection) (samples, error) {
		return s.client.Tap(ctx, sel)
	})
}

// TapPage is Tap with the link of a page, whose token it uses up, instead of a certificate. It needs only Out and Err
// of the Config.
func TapPage(ctx context.Context, cfg Config, link string, opts TapOptions) error {
	s := &Session{cfg: cfg}
	return s.tap(ctx, opts, func(ctx context.Context, sel *tapv1.Selection) (samples, error) {
		v, err := openPageSession(ctx, link)
		if err != nil {
			return nil, err
		}
		s.cfg.Address = v.host
		return v.tap(ctx, sel)
	})
}

// tap opens a stream and writes its samples.
func (s *Session) tap(
	ctx context.Context, opts TapOptions, open func(context.Context, *tapv1.Selection) (samples, error),
) error {
	opts.Data = opts.Data || opts.Format != selection.FormatJSON
	if _, err := selection.Parse(opts.Spec); err != nil {
		return &Error{
			Command:  doTap,
			ExitCode: ExitUsage,
			Why:      err.Error(),
			Err:      err,
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	if opts.Duration > 0 {
		ctx, cancel = context.WithTimeout(ctx, opts.Duration)
	}
	defer cancel()
	in, err := open(ctx, &tapv1.Selection{
		Share:   opts.Share,
		Rate:    opts.Rate,
		Sources: opts.Sources,
		Types:   opts.Types,
		MinSize: opts.MinSize,
		MaxSize: opts.MaxSize,
		Data:    opts.Data,
	})
	var refused *Error // has its exit code already
	if errors.As(err, &refused) {
		return err
	}
	t := tapOutput{opts: opts, out: bufio.NewWriterSize(s.cfg.Out, 1<<16), errOut: s.cfg.Err}
	err = follow(ctx, s, doTap, in, err, t.write)
	switch {
	case errors.Is(err, syscall.EPIPE), errors.Is(err, io.ErrClosedPipe):
		return nil
	case errors.Is(err, errEnough):
		err = nil
	}
	if t.lastMessage != nil {
		t.writeSummary()
	}
	return err
}

// errEnough ends a stream after MaxEvents.
var errEnough = errors.New("enough")

// tapOutput writes the samples of a tap, and counts them.
type tapOutput struct {
	opts   TapOptions
	out    *bufio.Writer
	errOut io.Writer

	lastMessage      *tapv1.Samples
	shownEvents      uint64
	unrenderedEvents uint64 // events that the format cannot represent
	lastProblems     string
	renderer         selection.Renderer
	text             []byte
}

// write writes a message.
func (t *tapOutput) write(m *tapv1.Samples) (err error) {
	if t.lastMessage == nil && m.GetBuilders() == 0 && len(m.GetProblems()) == 0 {
		fmt.Fprintln(t.errOut, "ringlet: no builder unit is there yet: waiting for one")
	}
	t.lastMessage = m
	t.writeProblems(m.GetProblems())
	for _, sample := range m.GetEvents() {
		e := eventOf(sample)
		if t.text, err = t.renderer.AppendEvent(t.text[:0], t.opts.Format, &e); err != nil {
			if t.unrenderedEvents++; t.unrenderedEvents == 1 {
				fmt.Fprintf(t.errOut, "ringlet: event %d of run %d is left out, and others of its kind: %v\n", e.Number, e.Run, err)
			}
			continue
		}
		if _, err := t.out.Write(t.text); err != nil {
			return err
		}
		if t.shownEvents++; t.shownEvents == t.opts.MaxEvents {
			break
		}
	}
	if err := t.out.Flush(); err != nil {
		return err
	}
	if t.opts.MaxEvents > 0 && t.shownEvents >= t.opts.MaxEvents {
		return errEnough
	}
	return nil
}

// writeProblems writes the problems if they have changed.
func (t *tapOutput) writeProblems(problems []string) {
	text := ""
	for _, p := range problems {
		text += "ringlet: " + stripControlChars(p) + "\n"
	}
	if text != t.lastProblems {
		t.lastProblems = text
		fmt.Fprint(t.errOut, text)
	}
}

// writeSummary writes the counts of a tap in one line.
func (t *tapOutput) writeSummary() {
	text := fmt.Sprintf("%d events shown of %d built", t.shownEvents, t.lastMessage.GetBuilt())
	for _, x := range []struct {
		n    uint64
		what string
	}{
		{t.lastMessage.GetDropped(), "dropped on the way, which was too slow"},
		{t.lastMessage.GetPassed(), "passed over, since searching for the selected events takes time"},
		{t.lastMessage.GetUnreadable(), "MEPs could not be read"},
		{t.unrenderedEvents, "cannot be written in this format"},
	} {
		if x.n > 0 {
			text += fmt.Sprintf("; %d %s", x.n, x.what)
		}
	}
	fmt.Fprintln(t.errOut, text)
}

// eventOf converts an event from its message. It shares the data.
func eventOf(m *tapv1.Sample) selection.Event {
	e := selection.Event{
		Meta: selection.Meta{
			Run:     m.GetRun(),
			MEP:     m.GetMep(),
			Attempt: m.GetAttempt(),
			Builder: m.GetBuilder(),
		},
		Number:    m.GetEvent(),
		Fragments: make([]selection.Fragment, 0, len(m.GetFragments())),
	}
	for _, f := range m.GetFragments() {
		e.Fragments = append(e.Fragments, selection.Fragment{
			Source:  uint16(f.GetSource()),
			Type:    event.BankType(f.GetType()),
			Version: uint8(f.GetVersion()),
			Size:    int(f.GetSize()),
			Data:    f.Data,
		})
	}
	return e
}
