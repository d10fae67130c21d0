package frontend

import (
	"context"

	"ringlet/shmem/ring"
)

// NextCommand waits for the next command of the run, in a ring whose settings have Follow. A front-end that looks
// seldom gets the last one alone. The error is a *RingError; ErrClosed: the run is over.
func (r *Ring) NextCommand(ctx context.Context) (c Command, err error) {
	if r.seg == nil {
		return c, r.fail("follow", errRingClosed)
	}
	err = r.core.Wait(ctx, func() (bool, error) {
		ticket, kind := r.core.Command()
		c = Command{
			Kind:       CommandKind(kind),
			Run:        r.run,
			Source:     r.source,
			SourceName: r.core.SourceName(),
			ticket:     ticket,
		}
		if ticket > r.commanded {
			return true, nil
		}
		return false, r.core.CheckOpen()
	}, r.alive)
	if err != nil {
		return Command{}, r.fail("follow", err)
	}
	r.commanded = c.ticket
	return c, nil
}

// Answer answers a command, behind all committed fragments: nil says that the front-end is where it leads, an error
// that it cannot go there, and why, of which 192 bytes count.
func (r *Ring) Answer(c Command, failed error) {
	if r.seg == nil {
		return
	}
	kind, why := byte(messageReady), ""
	switch {
	case failed != nil:
		kind, why = messageFail, failed.Error()
		why = why[:min(len(why), ring.MaxWhy)]
	case c.Kind == End:
		kind = messageDone
	}
	r.core.Answer(c.ticket, kind, why)
}
