package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"ringlet/clients/frontend/testdata/226138c3/go/fragring"
	"ringlet/shmem"
)

// Reasons of a *RingError, for errors.Is.
var (
	ErrNoRing   = errors.New("no readout unit has made the ring yet: does its run use this input?")
	ErrAttached = errors.New("another front-end fills the ring")
	ErrGone     = errors.New("the readout unit has ended without closing the ring")
	ErrFull     = errors.New("the ring is full: the fragment was thrown away")

	errDone = errors.New("this front-end has closed the ring")

	ErrEnded    = fragring.ErrEnded
	ErrClosed   = fragring.ErrClosed
	ErrRefused  = fragring.ErrRefused
	ErrTooLarge = fragring.ErrTooLarge
)

// RingError is a step at a ring that failed.
type RingError struct {
	Step string // "open", "reserve", "commit"
	Ring string // as it was named
	Err  error
}

func (e *RingError) Error() string { return fmt.Sprintf("%s ring %s: %v", e.Step, e.Ring, e.Err) }

func (e *RingError) Unwrap() error { return e.Err }

// RingSettings are what a ring is opened with. The zero value is right for most.
type RingSettings struct {
	Type uint8 // type of the fragments' banks; 0: 51 (TestDet)
	Drop bool  // a full ring throws fragments away, and counts them; without it, the front-end waits
}

// Ring is a ring in shared memory that this front-end fills. Its methods are for one goroutine.
type Ring struct {
	// immutable after OpenRing
	name   string
	set    RingSettings
	source uint16
	run    uint64

	seg   *shmem.Segment // nil once closed
	core  *fragring.Producer
	safe  uint64 // and dropped: once the ring is closed
	lost  uint64
	place []byte // that poll found
	size  int    // that poll looks for
	poll  func() (bool, error)
	alive func() error
}

// Pauses between two looks for a ring that is not there yet.
const (
	firstLook   = time.Millisecond
	slowestLook = 100 * time.Millisecond
)

// OpenRing attaches to a ring: NAME, which lies in /dev/shm, or a path. It waits until the readout unit has made it and
// no other front-end fills it; ctx bounds that. A *RingError says why it could not be: around ErrNoRing or ErrAttached
// and ctx's error where ctx was over, around ErrEnded where the run of the ring has ended.
func OpenRing(ctx context.Context, name string, s RingSettings) (*Ring, error) {
	if s.Type == 0 {
		s.Type = fragring.DefaultType
	}
	r := &Ring{name: name, set: s}
	r.poll, r.alive = r.look, r.consumerLives
	for pause := firstLook; ; pause = min(2*pause, slowestLook) {
		err := r.attach()
		if err == nil {
			return r, nil
		}
		if !errors.Is(err, ErrNoRing) && !errors.Is(err, ErrAttached) && !errors.Is(err, ErrGone) {
			return nil, r.fail("open", err)
		}
		select {
		case <-ctx.Done():
			return nil, r.fail("open", fmt.Errorf("%w (%w)", err, ctx.Err()))
		case <-time.After(pause):
		}
	}
}

// attach opens the ring once.
func (r *Ring) attach() (err error) {
	dir, base := filepath.Split(r.name)
	r.seg, err = shmem.Open(base, shmem.WithDir(dir))
	if errors.Is(err, shmem.ErrNotFound) {
		return fmt.Errorf("%w (%w)", ErrNoRing, err)
	}
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = r.seg.Close() // it was not used
		}
	}()
	if err := r.consumerLives(); err != nil {
		return err
	}
	ours, err := r.seg.ClaimByte(fragring.ProducerByte)
	if err != nil {
		return err
	}
	if !ours {
		return ErrAttached
	}
	r.core, err = fragring.Produce(base, r.seg.Bytes(), uint32(os.Getpid()))
	switch {
	case errors.Is(err, ErrClosed):
		return ErrGone // its name goes at once
	case err != nil:
		return err
	}
	r.source, r.run = r.core.Source(), r.core.Run()
	return nil
}

// consumerLives is ErrGone where nobody holds the consumer's lock.
func (r *Ring) consumerLives() error {
	lives, err := r.seg.IsByteClaimed(fragring.ConsumerByte)
	if err == nil && !lives {
		err = ErrGone
	}
	return err
}

func (r *Ring) fail(step string, err error) error {
	if err == nil {
		return nil
	}
	return &RingError{Step: step, Ring: r.name, Err: err}
}

// Source is the id of the source that the readout unit knows this ring as.
func (r *Ring) Source() uint16 { return r.source }

// Run is the number of the run.
func (r *Ring) Run() uint64 { return r.run }

// Expected is the event after the last one that was committed or dropped, by whatever front-end: where one that was
// killed begins again. 0 in a new ring.
func (r *Ring) Expected() uint64 { return r.core.Expected() }

// Safe is the number of the event below which all events are safe: nobody will ask for them again.
func (r *Ring) Safe() uint64 {
	if r.seg != nil {
		r.safe = r.core.Safe()
	}
	return r.safe
}

// Dropped is how many fragments were thrown away in this run.
func (r *Ring) Dropped() uint64 {
	if r.seg != nil {
		r.lost = r.core.Dropped()
	}
	return r.lost
}

// Reserve gives a place for a fragment of that many bytes, 65535 at most, which Commit hands over. A full ring makes it
// wait until ctx is over; with Drop, it gives ErrFull: then Drop the event, or try again. Other reasons of its
// *RingError: ErrClosed, ErrRefused, ErrGone, ErrTooLarge.
func (r *Ring) Reserve(ctx context.Context, size int) ([]byte, error) {
	if r.seg == nil {
		return nil, r.fail("reserve", errDone)
	}
	place, ok, err := r.core.Reserve(size)
	if err == nil && !ok {
		if r.set.Drop {
			return nil, ErrFull
		}
		r.size = size
		err = r.core.Wait(ctx, r.poll, r.alive)
		place = r.place
	}
	if err != nil {
		return nil, r.fail("reserve", err)
	}
	return place, nil
}

func (r *Ring) look() (ok bool, err error) {
	r.place, ok, err = r.core.Reserve(r.size)
	return ok, err
}

// Commit hands the first size bytes of the reserved place over, as the fragment of that event.
func (r *Ring) Commit(event uint64, size int) error {
	if r.seg == nil {
		return r.fail("commit", errDone)
	}
	return r.fail("commit", r.core.Commit(event, r.set.Type, size))
}

// Cancel gives the reserved place back.
func (r *Ring) Cancel() { r.core.Cancel() }

// Drop counts the fragment of an event as thrown away.
func (r *Ring) Drop(event uint64) error {
	if r.seg == nil {
		return r.fail("drop", errDone)
	}
	return r.fail("drop", r.core.Drop(event))
}

// Put copies a fragment into the ring. With Drop, a full ring counts the fragment as thrown away, and Put gives
// ErrFull.
func (r *Ring) Put(ctx context.Context, event uint64, data []byte) error {
	place, err := r.Reserve(ctx, len(data))
	if errors.Is(err, ErrFull) {
		if lost := r.Drop(event); lost != nil {
			return lost
		}
		return ErrFull
	}
	if err != nil {
		return err
	}
	copy(place, data)
	return r.Commit(event, len(data))
}

// End declares the end of this front-end's run, and closes the ring: the readout unit reads what is in it, and no
// fragment of this run may follow.
func (r *Ring) End() error { return r.close(true) }

// Close leaves the ring: this or another front-end may come back to it and go on. After End or Close it does nothing.
func (r *Ring) Close() error { return r.close(false) }

func (r *Ring) close(ended bool) error {
	if r.seg == nil {
		return nil
	}
	r.core.Leave(ended)
	r.safe, r.lost = r.core.Safe(), r.core.Dropped()
	seg := r.seg
	r.seg, r.place = nil, nil
	return r.fail("close", seg.Close())
}
