package fsm

import "context"

// Watch returns a channel of statuses: the present one at once, then each change, until ctx ends or the runner is
// closed, which closes the channel. The channel holds one status: a slow watcher gets the newest one, and its field
// Change tells whether the watcher has missed some.
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

// publish sends the status to all watchers. mu is held, so no other goroutine sends, and once the old status is taken
// out there is space.
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
