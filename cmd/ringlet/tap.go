package main

import (
	"context"
	"os/signal"
	"syscall"
	"time"

	"ringlet/ecs/ctl"
	"ringlet/event/selection"
)

// rendering are the flags for the format and number of events.
type rendering struct {
	Format string `default:"json" enum:"json,hex,mdf" help:"How to write an event: ${enum}. mdf is for a pipe or a file."`
	Events uint64 `default:"0" placeholder:"N" help:"End after so many events. 0 = go on."`
}

type tapCmd struct {
	visitor
	rendering
	Page    string        `placeholder:"LINK" help:"Look at ringlet run --page: the link that it printed last, instead of --control, --certs and --user."`
	Share   uint64        `default:"0" placeholder:"N" help:"Take one event in so many. 0 = all."`
	Rate    float64       `default:"0" placeholder:"N" help:"Take so many events a second at most, up to 10000. 0 = 10000 with --share, else 10."`
	Source  []string      `placeholder:"N" help:"Show fragments of these sources only: numbers, and ranges such as 0-15."`
	Type    []string      `placeholder:"TYPE" help:"Show fragments of these bank types only: names or numbers."`
	MinSize uint64        `default:"0" placeholder:"BYTES" help:"Take events whose shown fragments have so many bytes at least."`
	MaxSize uint64        `default:"0" placeholder:"BYTES" help:"Take events whose shown fragments have so many bytes at most. 0 = any."`
	Data    bool          `help:"With --format json: the bytes of the fragments too, in hexadecimal digits."`
	For     time.Duration `default:"0" placeholder:"TIME" help:"End after so long. 0 = go on."`
}

// Run shows a sample of what a partition builds.
func (c *tapCmd) Run(ctx context.Context, to streams) error {
	signal.Ignore(syscall.SIGPIPE) // the write returns EPIPE
	opts := ctl.TapOptions{
		Spec: selection.Spec{
			Share:   c.Share,
			Rate:    c.Rate,
			Sources: c.Source,
			Types:   c.Type,
			MinSize: c.MinSize,
			MaxSize: c.MaxSize,
			Data:    c.Data,
		},
		Format:    selection.Format(c.Format),
		MaxEvents: c.Events,
		Duration:  c.For,
	}
	err := c.showEvents(ctx, to, opts)
	if err == nil {
		return nil
	}
	ctl.WriteError(to.err, false, err)
	return &exit{code: ctl.ExitCode(err)}
}

// showEvents shows events to a user with a certificate, or with the link of a page.
func (c *tapCmd) showEvents(ctx context.Context, to streams, opts ctl.TapOptions) error {
	if c.Page != "" {
		return ctl.TapPage(ctx, ctl.Config{Out: to.out, Err: to.err}, c.Page, opts)
	}
	if c.Certs == "" && c.User == "" {
		return &ctl.Error{ExitCode: ctl.ExitUsage,
			Why: "whose events? ringlet run shows its own only with --page HOST:PORT, such as --page 127.0.0.1:8080: give " +
				"that to the run, and to this command --page and the link that the run prints. To look at what a ringlet " +
				"control builds, give --control, --certs DIR and --user NAME"}
	}
	s, err := c.session(to, false)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	return s.Tap(ctx, opts)
}
