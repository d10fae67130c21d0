package fsm

import "context"

// Watch returns a channel of statuses: the present one at once, then each
// change, until ctx ends or the runner is closed; then the channel is closed. The
// channel holds one status: a watcher that is slow finds the newest one and can
// tell from its field Change that it missed some.
func (r *Runner) Watch(ctx context.Context) <-chan Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	ch := make(chan Status, 1)
	ch <- r.status
	if r.closed {
		close(ch)
		return ch
	}
	r.watchers[ch] = true
	context.AfterFunc(ctx, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.watchers[ch] {
			delete(r.watchers, ch)
			close(ch)
		}
	})
	return ch
}

// publish gives the status to all watchers. The caller holds mu, so it is the
// only one that sends, and after taking the old status out there is room.
func (r *Runner) publish() {
	for ch := range r.watchers {
		select {
		case <-ch:
			r.stats.SkippedStates++
		default:
		}
		ch <- r.status
	}
}
