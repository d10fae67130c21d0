package main

import (
	"context"
	"errors"
	"os/signal"
	"syscall"
	"time"

	"ringlet/builderunit/reading"
	"ringlet/builderunit/sink"
	"ringlet/event/selection"
)

type readCmd struct {
	Name string `arg:"" help:"Name of the output: what the run has as --output with --format buffer."`
	rendering
	Data bool          `help:"With --format json: the bytes of the fragments too, in hexadecimal digits."`
	Wait time.Duration `default:"30s" placeholder:"TIME" help:"How long to wait for the run to begin."`

	MayLose bool `help:"Builder units do not wait for this reader: what it is too slow for is overwritten, and counted."`
}

// Run prints the events that builder units hand out in shared memory, until the run ends.
func (c *readCmd) Run(ctx context.Context, to streams) error {
	signal.Ignore(syscall.SIGPIPE) // the write returns EPIPE
	err := reading.Print(ctx, to.out, to.err, reading.Options{
		Name:      c.Name,
		Wait:      c.Wait,
		Format:    selection.Format(c.Format),
		WithData:  c.Data,
		MaxEvents: c.Events,

		MayLose: c.MayLose,
	})
	var damaged *sink.EntryError
	switch {
	case errors.Is(err, context.Canceled):
		return nil // the reader of the output has closed it
	case errors.As(err, &damaged):
		return &exit{exitInput, err}
	}
	return err
}
