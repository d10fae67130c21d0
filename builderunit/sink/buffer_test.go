package sink

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ringlet/shmem"
	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
)

func newBuffer(t *testing.T, capacity int) (*Buffer, *shmem.Reader) {
	t.Helper()
	dir := shmem.WithDir(t.TempDir())
	w, err := shmem.CreateWriter("ringlet-1-n0-out", capacity, shmem.Broadcast, dir)
	must.OK(t, err)
	b := &Buffer{w: w, result: Result{Path: w.Name()}}
	t.Cleanup(func() { _ = b.Abort() })
	r, err := shmem.OpenReader("ringlet-1-n0-out", dir)
	must.OK(t, err)
	t.Cleanup(func() { _ = r.Close() })
	return b, r
}

// markOf reads the mark at the end of an entry's data, and gives the MEP before it, as a consumer does.
func markOf(data []byte) (m Meta, mep []byte, ok bool) {
	at := len(data) - markBytes
	if at < 0 {
		return m, nil, false
	}
	le, b := binary.LittleEndian, data[at:]
	return Meta{
		MEP:        le.Uint64(b),
		FirstEvent: le.Uint64(b[8:]),
		Events:     int(le.Uint32(b[16:])),
		Attempt:    le.Uint32(b[20:]),
		Run:        le.Uint32(b[24:]),
	}, data[:at], true
}

func TestBuffer(t *testing.T) {
	p := testPattern(t)
	b, r := newBuffer(t, 64<<10)
	const n = 200
	errs := make(chan error, 1)
	go func() {
		for k := range uint64(n) {
			e, err := r.Next(context.Background())
			if err != nil {
				errs <- err
				return
			}
			m, want := buildMEP(t, p, k, testPacking, int(k%5))
			mark, mep, ok := markOf(e.Data)
			if e.Type != entryTypeMEP || !ok || !bytes.Equal(mep, want) || !cmp.Equal(mark, m) {
				errs <- errors.New("an entry is not the MEP that was written")
				return
			}
			if err := r.Ack(e); err != nil {
				errs <- err
				return
			}
		}
		_, err := r.Next(context.Background())
		errs <- err
	}()
	for k := range uint64(n) {
		m, mep := buildMEP(t, p, k, testPacking, int(k%5))
		must.OK(t, b.Write(t.Context(), m, mep))
	}
	res, err := b.Finish()
	if err != nil || res.MEPs != n || res.Events != n*testPacking || res.Path == "" {
		t.Error(err, res)
	}
	if err := patiently.Receive(t, errs); !errors.Is(err, shmem.ErrEndOfRun) {
		t.Error(err)
	}
	if _, err := b.Finish(); !errors.Is(err, errClosed) {
		t.Error(err)
	}
	if err := b.Write(t.Context(), Meta{}, nil); !errors.Is(err, errClosed) {
		t.Error(err)
	}
}

// TestSuperseded holds that a reader is told which MEP does not count after all.
func TestSuperseded(t *testing.T) {
	b, r := newBuffer(t, 64<<10)
	m := Meta{
		Run:        7,
		MEP:        1 << 40,
		FirstEvent: 5,
		Events:     3,
		Attempt:    2,
	}
	must.OK(t, b.Supersede(t.Context(), m))
	e, err := r.Next(t.Context())
	must.OK(t, err)
	mark, mep, ok := markOf(e.Data)
	if e.Type != entryTypeSuperseded || !ok || len(mep) > 0 || !cmp.Equal(mark, m) {
		t.Errorf("type %#x, %+v, %d bytes", e.Type, mark, len(mep))
	}
	if got := b.Stats().SupersededMEPs; got != 1 {
		t.Errorf("%d counted", got)
	}
	if _, _, ok := markOf(e.Data[:markBytes-1]); ok {
		t.Error("a mark was read from too few bytes")
	}
	if _, err := b.Finish(); err != nil {
		t.Error(err)
	}
	if err := b.Supersede(t.Context(), m); !errors.Is(err, errClosed) {
		t.Error(err)
	}
}

func TestBufferFull(t *testing.T) {
	p := testPattern(t)
	b, r := newBuffer(t, 4096)
	m, mep := buildMEP(t, p, 0, testPacking, 0)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	var err error
	for err == nil {
		err = b.Write(ctx, m, mep)
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a full buffer gives %v", err)
	}
	m, mep = buildMEP(t, p, 0, testPacking, 5000)
	var se *SinkError
	if err := b.Write(t.Context(), m, mep); !errors.As(err, &se) || !errors.Is(err, shmem.ErrTooLarge) {
		t.Error(err)
	}
	if err := errors.Join(b.Abort(), b.Abort()); err != nil {
		t.Error(err)
	}
	for err = nil; err == nil; {
		var e shmem.Entry
		if e, err = r.Next(t.Context()); err == nil {
			err = r.Ack(e)
		}
	}
	if !errors.Is(err, shmem.ErrWriterGone) {
		t.Error(err)
	}
}

func TestDiscard(t *testing.T) {
	var s Sink = new(Discard)
	if err := s.Write(t.Context(), Meta{Events: 5}, make([]byte, 7)); err != nil {
		t.Error(err)
	}
	if r, err := s.Finish(); err != nil || r != (Result{MEPs: 1, Events: 5, Bytes: 7}) {
		t.Error(r, err)
	}
	if err := s.Abort(); err != nil {
		t.Error(err)
	}
}

var _, _, _, _ Sink = (*Segments)(nil), (*File)(nil), (*Buffer)(nil), (*Discard)(nil)

// TestLend hands MEPs out where they lie: the reader gets every byte, the slot is free at once, and a reader that holds
// what it was given holds up the writer when no block is spare.
func TestLend(t *testing.T) {
	const n, spare = 200, 2
	p := testPattern(t)
	dir := shmem.WithDir(must.MemoryDir(t))
	slots, err := shmem.CreateSlots("ringlet-1-slots", 1, 64<<10, dir, shmem.WithSpare(spare, LendMargin))
	must.OK(t, err)
	defer func() { _ = slots.Close() }()
	w, err := shmem.CreateWriter("ringlet-1-n0-out", LendCapacity, shmem.Broadcast, dir,
		shmem.WithAnnex(slots.Segment()))
	must.OK(t, err)
	b := &Buffer{
		w:         w,
		lendSlots: slots,
		maxLent:   spare,
		result:    Result{Path: w.Name()},
	}
	defer func() { _ = b.Abort() }()
	r, err := shmem.OpenReader("ringlet-1-n0-out", dir)
	must.OK(t, err)
	defer func() { _ = r.Close() }()
	lend := func(ctx context.Context, k uint64) error {
		m, mep := buildMEP(t, p, k, testPacking, int(k%5))
		must.OK(t, errors.Join(slots.Offer(0), slots.Fill(0)))
		copy(slots.Bytes(0), mep)
		must.OK(t, slots.Build(0))
		err := b.Lend(ctx, m, 0, slots.Bytes(0)[:len(mep)])
		must.OK(t, slots.Free(0))
		return err
	}
	for k := range uint64(n) {
		must.OK(t, lend(t.Context(), k))
		e, err := r.Next(t.Context())
		must.OK(t, err)
		m, want := buildMEP(t, p, k, testPacking, int(k%5))
		mark, mep, ok := markOf(e.Data)
		if e.Type != entryTypeMEP || !ok || !bytes.Equal(mep, want) || !cmp.Equal(mark, m) {
			t.Fatalf("MEP %d is not the one that was lent", k)
		}
		must.OK(t, r.Ack(e))
	}
	for k := range uint64(spare) {
		must.OK(t, lend(t.Context(), n+k))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := lend(ctx, n+spare); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("every block is lent: %v", err)
	}
	if res, err := b.Finish(); err != nil || res.MEPs != n+spare {
		t.Error(err, res)
	}
	if err := b.Lend(t.Context(), Meta{}, 0, nil); !errors.Is(err, errClosed) {
		t.Error(err)
	}
}

// TestBufferWaitsForItsFirstReader: a run may be over before a reader that waits for it has found the buffer. It gets
// every MEP all the same; where no reader comes, what nobody has read is counted.
func TestBufferWaitsForItsFirstReader(t *testing.T) {
	p := testPattern(t)
	for name, comes := range map[string]bool{"comes late": true, "does not come": false, "has been there": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := shmem.WithDir(t.TempDir())
			w, err := shmem.CreateWriter("ringlet-1-n0-out", 64<<10, shmem.Broadcast, dir)
			must.OK(t, err)
			b := &Buffer{w: w}
			m, mep := buildMEP(t, p, 7, testPacking, 0)
			must.OK(t, b.Write(t.Context(), m, mep))
			if name == "has been there" {
				r, err := shmem.OpenReader("ringlet-1-n0-out", dir, shmem.WithLossyReader())
				must.OK(t, err)
				must.OK(t, r.Close())
			}
			finished := make(chan error, 1)
			go func() {
				_, err := b.Finish()
				finished <- err
			}()
			switch {
			case name == "has been there": // one that may lose leaves no other trace
				must.OK(t, patiently.Receive(t, finished))
			case comes:
				time.Sleep(firstReaderTimeout / 50) // else the buffer is gone by now
				r, err := shmem.OpenReader("ringlet-1-n0-out", dir)
				must.OK(t, err)
				defer func() { _ = r.Close() }()
				must.OK(t, patiently.Receive(t, finished))
				e, err := r.Next(t.Context())
				if _, got, ok := markOf(e.Data); err != nil || !ok || !bytes.Equal(got, mep) {
					t.Errorf("%v, %v: not the MEP that was written", err, ok)
				}
			default:
				must.OK(t, patiently.Receive(t, finished))
			}
			if unread := b.Stats().UnreadMEPs; (unread == 0) != comes {
				t.Errorf("%d MEPs are unread", unread)
			}
		})
	}
}
