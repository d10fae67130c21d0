package frontend

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"ringlet/shmem"
	"ringlet/shmem/ring"
)

// Reasons of a *RingError, for errors.Is.
var (
	ErrNoRing   = errors.New("no readout unit has made the ring yet: does its run use this input?")
	ErrAttached = errors.New("another front-end fills the ring")
	ErrGone     = errors.New("the readout unit has ended without closing the ring")
	ErrFull     = errors.New("the ring is full: the fragment was dropped")
	// ErrOrder is an event number that is not above those before it: the readout unit would throw the fragment away.
	ErrOrder = errors.New("event numbers must grow in a ring; a front-end that counts anew needs a new run")
	// ErrNotTaken: the readout unit has not taken the end of the run in time.
	ErrNotTaken = errors.New("the readout unit has not taken the end of the run in time: what it has not read may be lost")

	errNoLife = errors.New("the readout unit is of a release that tells nothing of the run in a ring")

	errRingClosed = errors.New("this front-end has closed the ring")

	ErrEnded    = ring.ErrEnded
	ErrClosed   = ring.ErrClosed
	ErrRefused  = ring.ErrRefused
	ErrTooLarge = ring.ErrTooLarge
)

// RingError is the error of an operation on a ring.
type RingError struct {
	Step string // such as "open", "reserve" or "commit"
	Ring string // as the caller named it
	Err  error
}

func (e *RingError) Error() string { return fmt.Sprintf("%s ring %s: %v", e.Step, e.Ring, e.Err) }

func (e *RingError) Unwrap() error { return e.Err }

// RingSettings are the settings of a ring. The zero value suits most front-ends.
type RingSettings struct {
	Type uint8  // type of the fragments' banks; 0: 51 (TestDet)
	Drop bool   // if the ring is full, drop and count fragments; without it, the front-end waits
	Name string // of the front-end, for logs and reports, at most 64 bytes
	// Follow the run: NextCommand says what it wants, and Answer must answer it.
	Follow bool
}

// Ring is a ring in shared memory that this front-end fills. Its methods are for one goroutine.
type Ring struct {
	// immutable after OpenRing
	name     string
	settings RingSettings
	source   uint16
	run      uint64

	seg          *shmem.Segment // nil once closed
	core         *ring.Producer
	safe         uint64 // like dropped and givenUp, the last value after the ring is closed
	dropped      uint64
	givenUp      uint64
	reservedData []byte // place that poll has found
	reservedSize int    // size of the place that poll looks for
	commanded    uint64 // ticket of the last command that NextCommand has returned
	words        Words  // before it
	poll         func() (bool, error)
	alive        func() error
}

// Pauses between two attempts to open a ring that does not exist yet.
const (
	shortestPause = time.Millisecond
	longestPause  = 100 * time.Millisecond

	// resumeTimeout is how long OpenRing waits until the readout unit has judged the fragments of the front-end before.
	resumeTimeout = 200 * time.Millisecond
	// EndPatience is how long End waits for the readout unit.
	EndPatience = 30 * time.Second
)

// OpenRing attaches to a ring: NAME in /dev/shm, or a path. It waits until the readout unit has made the ring and no
// other front-end fills it, or ctx is done. The error is a *RingError. It wraps ErrNoRing or ErrAttached together with
// ctx's error if ctx is done, and ErrEnded if the run of the ring has ended.
func OpenRing(ctx context.Context, name string, settings RingSettings) (*Ring, error) {
	if len(settings.Name) > ring.MaxName {
		return nil, &RingError{"open", name, fmt.Errorf("the name of a front-end has %d bytes: %d are the most",
			len(settings.Name), ring.MaxName)}
	}
	if settings.Type == 0 {
		settings.Type = ring.DefaultType
	}
	r := &Ring{name: name, settings: settings}
	r.poll, r.alive = r.tryReserve, r.checkConsumerLives
	for pause := shortestPause; ; pause = min(2*pause, longestPause) {
		err := r.attach()
		if err == nil {
			r.awaitResume()
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
			_ = r.seg.Close() // nothing was written to it
		}
	}()
	if err := r.checkConsumerLives(); err != nil {
		return err
	}
	ours, err := r.seg.ClaimByte(ring.ProducerByte)
	if err != nil {
		return err
	}
	if !ours {
		return ErrAttached
	}
	r.core, err = ring.AttachProducer(base, r.seg.Bytes(), ring.ProducerInfo{PID: uint32(os.Getpid()),
		Name: r.settings.Name, Follows: r.settings.Follow})
	switch {
	case errors.Is(err, ErrClosed):
		return ErrGone // OpenRing tries again: the readout unit removes the name at once
	case err != nil:
		return err
	}
	if r.settings.Follow && !r.core.HasLife() {
		r.core.Detach(false)
		return errNoLife
	}
	r.source, r.run = r.core.Source(), r.core.Run()
	return nil
}

// awaitResume waits until the readout unit has judged the fragments that the front-end before has left in the ring, and
// sets the next event.
func (r *Ring) awaitResume() {
	for until := time.Now().Add(resumeTimeout); !r.core.ResumePublished() && time.Now().Before(until); {
		time.Sleep(shortestPause)
	}
	r.core.Resume()
}

// checkConsumerLives returns ErrGone if no process holds the consumer's lock.
func (r *Ring) checkConsumerLives() error {
	lives, err := r.seg.IsByteClaimed(ring.ConsumerByte)
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

// Source is the id of the source that the readout unit reads from this ring.
func (r *Ring) Source() uint16 { return r.source }

// Run is the number of the run.
func (r *Ring) Run() uint64 { return r.run }

// Expected is the event after the last one that any front-end has committed or dropped; 0 in a new ring. A front-end
// that was killed continues there. If the front-end before ended with a wild event number, which the readout unit does
// not accept, Expected is the event after the last accepted one.
func (r *Ring) Expected() uint64 { return r.core.Expected() }

// Safe is the event number below which all events are safe: the front-end may forget them.
func (r *Ring) Safe() uint64 {
	if r.seg != nil {
		r.safe = r.core.Safe()
	}
	return r.safe
}

// GivenUp is how many fragments of this run's ring the readout unit has given up: they are in no file.
func (r *Ring) GivenUp() uint64 {
	if r.seg != nil {
		r.givenUp = r.core.GivenUp()
	}
	return r.givenUp
}

// NextGivenUp returns each range of events that were given up once; false if there is no further one. The ring keeps
// the last 64 ranges: Missed says how many were overwritten before this one.
func (r *Ring) NextGivenUp() (GivenUp, bool, error) {
	if r.seg == nil {
		return GivenUp{}, false, r.fail("read", errRingClosed)
	}
	g, ok, err := r.core.NextGivenUp()
	return GivenUp{
		From:      g.From,
		To:        g.To,
		Fragments: uint64(g.Count),
		Reason:    uint8(g.Why),
		Missed:    g.Overwritten,
	}, ok, r.fail("read", err)
}

// Dropped is how many fragments were dropped in this run.
func (r *Ring) Dropped() uint64 {
	if r.seg != nil {
		r.dropped = r.core.Dropped()
	}
	return r.dropped
}

// Reserve returns a place for a fragment of size bytes: 65,535 at most, or as many as ?max= of the input says. The
// caller fills it, and Commit hands it over.
// If the ring is full, Reserve waits until ctx is done; with the setting Drop it returns ErrFull: then call Drop for
// the event, or try again. Its *RingError may also wrap ErrClosed, ErrRefused, ErrGone or ErrTooLarge.
func (r *Ring) Reserve(ctx context.Context, size int) ([]byte, error) {
	return r.reserve(ctx, size, Words{})
}

func (r *Ring) reserve(ctx context.Context, size int, words Words) ([]byte, error) {
	if r.seg == nil {
		return nil, r.fail("reserve", errRingClosed)
	}
	place, ok, err := r.core.ReserveWith(size, ring.Words(words))
	if err == nil && !ok {
		if r.settings.Drop {
			return nil, ErrFull
		}
		r.reservedSize, r.words = size, words
		err = r.core.Wait(ctx, r.poll, r.alive)
		place = r.reservedData
	}
	if err != nil {
		return nil, r.fail("reserve", err)
	}
	return place, nil
}

func (r *Ring) tryReserve() (ok bool, err error) {
	r.reservedData, ok, err = r.core.ReserveWith(r.reservedSize, ring.Words(r.words))
	return ok, err
}

// Commit hands over the first size bytes of the reserved place as the fragment of that event. Event numbers must grow:
// for another one the *RingError wraps ErrOrder, and the place stays reserved.
func (r *Ring) Commit(event uint64, size int) error {
	if r.seg == nil {
		return r.fail("commit", errRingClosed)
	}
	if err := r.checkOrder(event); err != nil {
		return r.fail("commit", err)
	}
	return r.fail("commit", r.core.Commit(event, r.settings.Type, size))
}

// checkOrder refuses a number that is not above those before it.
func (r *Ring) checkOrder(event uint64) error {
	if next := r.core.Expected(); event < next {
		return fmt.Errorf("%w: event %d comes where %d or a higher one is next", ErrOrder, event, next)
	}
	return nil
}

// Cancel releases the reserved place.
func (r *Ring) Cancel() { r.core.Cancel() }

// Drop counts the fragment of an event as dropped.
func (r *Ring) Drop(event uint64) error {
	if r.seg == nil {
		return r.fail("drop", errRingClosed)
	}
	if err := r.checkOrder(event); err != nil {
		return r.fail("drop", err)
	}
	return r.fail("drop", r.core.Drop(event))
}

// Put copies a fragment into the ring. With the setting Drop, if the ring is full, it counts the fragment as dropped
// and returns ErrFull.
func (r *Ring) Put(ctx context.Context, event uint64, data []byte) error {
	return r.PutWith(ctx, event, Words{}, data)
}

// PutWith copies a fragment into the ring as Put does, with a trigger number and a time stamp.
func (r *Ring) PutWith(ctx context.Context, event uint64, words Words, data []byte) error {
	place, err := r.reserve(ctx, len(data), words)
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
	if err = r.Commit(event, len(data)); err != nil {
		r.Cancel()
	}
	return err
}

// End declares the end of this front-end's run, waits for EndPatience at most until the readout unit has taken all
// fragments in the ring and the end, and closes the ring. No fragment of this run may follow. Taken fragments are not
// yet safe.
func (r *Ring) End() error {
	ctx, cancel := context.WithTimeout(context.Background(), EndPatience)
	defer cancel()
	return r.EndWithin(ctx)
}

// EndWithin is End with ctx as the bound of its wait. Its *RingError may wrap ErrNotTaken, ErrClosed, ErrRefused or
// ErrGone. The ring is closed in any case.
func (r *Ring) EndWithin(ctx context.Context) error {
	if r.seg == nil {
		return nil
	}
	r.core.Detach(true)
	err := r.core.Wait(ctx, r.core.EndAcked, r.checkConsumerLives)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w (%w)", ErrNotTaken, ctx.Err())
	}
	return errors.Join(r.fail("end", err), r.close())
}

// Close detaches from the ring: this or another front-end may attach again and go on. Committed fragments stay in the
// ring. After End or Close it does nothing.
func (r *Ring) Close() error {
	if r.seg == nil {
		return nil
	}
	r.core.Detach(false)
	return r.close()
}

func (r *Ring) close() error {
	r.safe, r.dropped, r.givenUp = r.core.Safe(), r.core.Dropped(), r.core.GivenUp()
	seg := r.seg
	r.seg, r.reservedData = nil, nil
	return r.fail("close", seg.Close())
}
