package frontend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Close declares the end of the run behind the last event, and waits until the readout unit has taken it and each
// fragment has its outcome. It returns nil if all are safe, and a *GivenUpError if some are in no file of the run. It
// waits until ctx is done; if ctx has no deadline, until the readout unit has told nothing new for 5 minutes, or there
// was no readout unit for one minute. After that the error says from which event on fragments may be lost. The stream
// is closed in any case.
func (s *Stream) Close(ctx context.Context) error {
	defer func() {
		s.stop()
		<-s.stopped
	}()
	_, hasDeadline := ctx.Deadline()
	s.mu.Lock()
	end := max(s.lastSentPlusOne, s.resumeEvent)
	s.lastProgress = time.Now()
	s.mu.Unlock()
	for queued := false; !queued; {
		err := s.await(ctx, hasDeadline, end, func() bool { return s.buffer.free() >= frameHeader })
		if err == nil {
			queued, err = s.queue(end, 2, Words{}, nil)
		}
		if err != nil {
			return err
		}
	}
	if err := s.await(ctx, hasDeadline, end, func() bool {
		// Of a run that has told its end, and is gone, nobody can take the end, or needs it.
		taken := s.endConfirmed && s.endEvent == end || s.following.endReported && !s.attached
		return taken && s.allResolved()
	}); err != nil {
		return err
	}
	return s.givenUpError()
}

// await waits until done returns true; it calls done with mu held. After the time of Close, the error says which
// fragments may be lost.
func (s *Stream) await(ctx context.Context, hasDeadline bool, end uint64, done func() bool) error {
	for {
		s.mu.Lock()
		is, err := done(), s.err
		n, from := s.buffer.unresolved(s.acked, s.fragmentCount())
		until, why := s.waitLimit(n)
		acked := s.acked
		s.mu.Unlock()
		if is || err != nil {
			if is {
				err = nil
			}
			return err
		}
		var timer <-chan time.Time
		if !hasDeadline {
			timer = time.After(time.Until(until))
		}
		select {
		case <-s.changed:
			continue
		case <-timer:
			err = why
		case <-ctx.Done():
			err = ctx.Err()
		}
		if n == 0 {
			return fmt.Errorf("%w: the run ends at event %d, and the end is not known to be taken; all events below %d are safe",
				err, end, acked)
		}
		return fmt.Errorf("%w: the run ends at event %d, and events from %d on are not known to be safe: %d fragments", err,
			end, from, n)
	}
}

// waitLimit returns until when Close waits if nothing more happens, and its error then; n fragments have no outcome. mu
// is held.
func (s *Stream) waitLimit(n int) (time.Time, error) {
	switch {
	case s.attached:
		return s.lastProgress.Add(closeTimeout), fmt.Errorf("the readout unit has told nothing new for %v", closeTimeout)
	case n == 0:
		return s.detachedSince.Add(s.safeTimeout), fmt.Errorf("there is no readout unit at %s:%s", s.network, s.address)
	}
	return s.detachedSince.Add(s.aloneTimeout), fmt.Errorf("there is no readout unit at %s:%s", s.network, s.address)
}

// allResolved says whether each sent fragment has its outcome: it is safe or given up. mu is held.
func (s *Stream) allResolved() bool {
	fragments := s.fragmentCount()
	from := s.acked
	givenUp := slices.Clone(s.givenUp)
	slices.SortFunc(givenUp, func(a, b GivenUp) int { return cmp.Compare(a.From, b.From) })
	for _, g := range givenUp {
		if n, next := s.buffer.unresolved(from, fragments); n == 0 || next < g.From {
			break
		}
		if g.To-g.From == g.Fragments {
			from = max(from, g.To)
		}
	}
	n, _ := s.buffer.unresolved(from, fragments)
	return n == 0
}

// fragmentCount is how many frames are kept, without the frame of the run's end. mu is held.
func (s *Stream) fragmentCount() int {
	n := s.buffer.lastFrame - s.buffer.firstFrame
	if s.closing && n > 0 {
		n--
	}
	return n
}

// givenUpError is a *GivenUpError if fragments of this stream were given up.
func (s *Stream) givenUpError() error {
	if givenUp := s.GivenUp(); len(givenUp) > 0 {
		return &GivenUpError{givenUp}
	}
	return nil
}

// Leave closes the stream without declaring the end of the run: for a front-end that ends before the run does. It waits
// until the readout unit has all sent fragments, until ctx is done, and no longer than 5 s. The error says how many
// fragments may be lost.
func (s *Stream) Leave(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	s.mu.Lock()
	s.leaving = true
	s.mu.Unlock()
	signal(s.toSend)
	select {
	case <-s.stopped:
	case <-ctx.Done():
	}
	s.stop()
	<-s.stopped
	s.mu.Lock()
	defer s.mu.Unlock()
	n, from := s.buffer.unresolved(s.acked, s.fragmentCount())
	if s.delivered || n == 0 {
		return nil
	}
	err := s.err
	if err == nil {
		err = errors.New("the readout unit did not take them in time")
	}
	return fmt.Errorf("%d fragments from event %d on may be lost: %w", n, from, err)
}
