package nodes

import (
	"context"
	"errors"
	"sync"
	"time"

	"ringlet/ecs/partition/fault"
	nodev1 "ringlet/proto/ringlet/node/v1"
)

// errEnough ends the wait for nodes that cannot get ready any more, because another one has failed.
var errEnough = errors.New("another node did not carry it out")

// together is all for the way up, where nodes wait for each other's links. When one did not carry out its command, or
// something else struck, the others have fault.SettleLong to name a closer cause, and are then waited for no longer:
// that they did not get ready is no fault of theirs.
func (c *Crew) together(ctx context.Context, req *nodev1.CommandRequest) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	over, failed := make(chan struct{}), make(chan struct{})
	var watch sync.WaitGroup
	defer watch.Wait()
	defer close(over)
	watch.Go(func() {
		select {
		case <-failed:
		case <-c.faults.struckNow():
		case <-over:
			return
		}
		select {
		case <-time.After(fault.SettleLong):
			cancel(errEnough)
		case <-over:
		}
	})
	var first sync.Once
	var wg sync.WaitGroup
	errs := make([]error, len(c.nodes))
	for i, n := range c.nodes {
		if c.passed(n) {
			continue
		}
		wg.Go(func() {
			err := n.command(ctx, req)
			if err == nil || errors.Is(context.Cause(ctx), errEnough) {
				return
			}
			errs[i] = err
			first.Do(func() { close(failed) })
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if cause := c.faults.cause(); cause != nil {
		return cause
	}
	return nil
}
