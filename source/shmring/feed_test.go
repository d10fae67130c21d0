package shmring

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ringlet/clients/frontend"
	"ringlet/shmem"
	"ringlet/shmem/ring"
	"ringlet/source/live"
	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
)

// within is a context that ends a test which waits for what does not come.
func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patiently.LongTimeout)
	t.Cleanup(cancel)
	return ctx
}

// opened is a feed, and the path of its ring.
func opened(t testing.TB, settings string) (live.Feed, string) {
	t.Helper()
	path := filepath.Join(must.MemoryDir(t), "calo")
	f, err := Open(within(t), live.FeedSettings{
		Address:  path + settings,
		Name:     "shm:calo",
		SourceID: 7,
		Run:      12,
	})
	must.OK(t, err)
	t.Cleanup(func() { must.OK(t, f.Close()) })
	return f, path
}

func attachRing(t testing.TB, path string, s frontend.RingSettings) *frontend.Ring {
	t.Helper()
	r, err := frontend.OpenRing(within(t), path, s)
	must.OK(t, err)
	t.Cleanup(func() { must.OK(t, r.Close()) })
	return r
}

// read takes n fragments, copies nothing, and gives their room back.
func read(t testing.TB, f live.Feed, n int, see func(live.Fragment)) {
	t.Helper()
	dst := make([]live.Fragment, 64)
	for n > 0 {
		got, err := f.Next(within(t), dst[:min(n, len(dst))])
		must.OK(t, err)
		for _, r := range dst[:got] {
			see(r)
		}
		f.ReleaseFragments(got)
		n -= got
	}
}

func TestThereAndBack(t *testing.T) {
	f, path := opened(t, "?size=256KiB")
	r := attachRing(t, path, frontend.RingSettings{Type: 9})
	if r.Source() != 7 || r.Run() != 12 || r.Expected() != 0 {
		t.Errorf("source %d, run %d, expected %d", r.Source(), r.Run(), r.Expected())
	}
	const events = 20_000 // many times round
	done := make(chan error, 1)
	go func() {
		data := make([]byte, 3000)
		for e := range uint64(events) {
			binary.LittleEndian.PutUint64(data, e)
			if err := r.Put(context.Background(), e, data[:8+e%2992]); err != nil {
				done <- err
				return
			}
		}
		done <- r.End()
	}()
	next, bytes := uint64(0), uint64(0)
	read(t, f, events, func(g live.Fragment) {
		if g.Event != next || g.Type != 9 || len(g.Data) != int(8+next%2992) || binary.LittleEndian.Uint64(g.Data) != next {
			t.Fatalf("event %d of %d bytes, type %d; want event %d", g.Event, len(g.Data), g.Type, next)
		}
		next++
		bytes += uint64(len(g.Data))
	})
	if n, err := f.Next(within(t), make([]live.Fragment, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("after the end: %d, %v", n, err)
	}
	must.OK(t, patiently.Receive(t, done, "the producer did not end"))
	want := live.Stats{Fragments: events, Bytes: bytes, FrontendsAttached: 1}
	if s := f.Stats(); s != want {
		t.Errorf("%+v, want %+v", s, want)
	}
	if _, err := frontend.OpenRing(within(t), path, frontend.RingSettings{}); !errors.Is(err, frontend.ErrEnded) {
		t.Errorf("after the end: %v", err)
	}
}

// TestSlowConsumer: a full ring makes the front-end wait, and loses nothing.
func TestSlowConsumer(t *testing.T) {
	f, path := opened(t, "?size=256KiB")
	r := attachRing(t, path, frontend.RingSettings{})
	data := make([]byte, 60_000)
	put := 0
	for {
		ctx, cancel := context.WithCancel(within(t))
		if put >= 4 { // there is no room for a fifth
			cancel()
		}
		err := r.Put(ctx, uint64(put), data)
		cancel()
		if errors.Is(err, context.Canceled) {
			break
		}
		must.OK(t, err)
		put++
	}
	if put != 4 {
		t.Fatalf("%d of 60 kB in 256 KiB", put)
	}
	dst := make([]live.Fragment, 8)
	n, err := f.Next(within(t), dst)
	must.OK(t, err)
	if n != put {
		t.Fatalf("%d fragments of %d", n, put)
	}
	waits := make(chan error, 1)
	go func() { waits <- r.Put(context.Background(), uint64(put), data) }()
	f.ReleaseFragments(1) // not enough where the ring's end is in the way
	f.ReleaseFragments(3)
	must.OK(t, patiently.Receive(t, waits, "the front-end did not go on"))
	read(t, f, 1, func(g live.Fragment) {
		if g.Event != uint64(put) {
			t.Errorf("event %d", g.Event)
		}
	})
	if s := f.Stats(); s.Fragments != 5 || s.DroppedByFrontend != 0 {
		t.Errorf("%+v", s)
	}
}

func TestDrop(t *testing.T) {
	f, path := opened(t, "?size=256KiB")
	r := attachRing(t, path, frontend.RingSettings{Drop: true})
	data := make([]byte, 60_000)
	for e := range uint64(4) {
		must.OK(t, r.Put(within(t), e, data))
	}
	for e := range uint64(3) {
		if err := r.Put(within(t), 4+e, data); !errors.Is(err, frontend.ErrFull) {
			t.Fatal(err)
		}
	}
	read(t, f, 4, func(live.Fragment) {})
	must.OK(t, r.Put(within(t), 7, data))
	read(t, f, 1, func(g live.Fragment) {
		if g.Event != 7 {
			t.Errorf("event %d", g.Event)
		}
	})
	if s := f.Stats(); s.DroppedByFrontend != 3 || r.Dropped() != 3 || r.Expected() != 8 {
		t.Errorf("%+v, %d dropped, expected %d", s, r.Dropped(), r.Expected())
	}
}

func TestTwoFrontEnds(t *testing.T) {
	f, path := opened(t, "")
	r := attachRing(t, path, frontend.RingSettings{})
	over, cancel := context.WithCancel(within(t))
	cancel()
	if _, err := frontend.OpenRing(over, path, frontend.RingSettings{}); !errors.Is(err, frontend.ErrAttached) {
		t.Errorf("a second front-end: %v", err)
	}
	must.OK(t, r.Put(within(t), 5, []byte("x")))
	must.OK(t, r.Close())
	again := attachRing(t, path, frontend.RingSettings{})
	if again.Expected() != 6 {
		t.Errorf("expected %d", again.Expected())
	}
	must.OK(t, again.Put(within(t), 6, []byte("y")))
	read(t, f, 2, func(live.Fragment) {})
	if s := f.Stats(); s.FrontendsAttached != 2 || s.FrontendsGone != 1 {
		t.Errorf("%+v", s)
	}
}

func TestFrontEndBeforeTheRing(t *testing.T) {
	path := filepath.Join(must.MemoryDir(t), "early")
	over, cancel := context.WithCancel(within(t))
	cancel()
	if _, err := frontend.OpenRing(over, path, frontend.RingSettings{}); !errors.Is(err, frontend.ErrNoRing) {
		t.Errorf("%v", err)
	}
	put := make(chan error, 1)
	go func() {
		r, err := frontend.OpenRing(within(t), path, frontend.RingSettings{})
		if err == nil {
			err = errors.Join(r.Put(context.Background(), 0, []byte("first")), r.End())
		}
		put <- err
	}()
	f, err := Open(within(t), live.FeedSettings{Address: path, Name: "shm:early"})
	must.OK(t, err)
	defer func() { must.OK(t, f.Close()) }()
	read(t, f, 1, func(g live.Fragment) {
		if string(g.Data) != "first" || g.Type != ring.DefaultType {
			t.Errorf("%q, type %d", g.Data, g.Type)
		}
	})
	if _, err := f.Next(within(t), make([]live.Fragment, 1)); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	must.OK(t, patiently.Receive(t, put, "the front-end did not end"))
}

// TestClosed: a front-end that waits for room learns that nobody reads any more; and what is safe, before that.
func TestClosed(t *testing.T) {
	f, path := opened(t, "?size=256KiB")
	r := attachRing(t, path, frontend.RingSettings{})
	for e := range uint64(4) {
		must.OK(t, r.Put(within(t), e, make([]byte, 60_000)))
	}
	waits := make(chan error, 1)
	go func() { waits <- r.Put(context.Background(), 4, make([]byte, 60_000)) }()
	f.SetSafeBelow(3)
	must.OK(t, f.Close())
	if err := patiently.Receive(t, waits, "the front-end still waits"); !errors.Is(err, frontend.ErrClosed) {
		t.Error(err)
	}
	if r.Safe() != 3 {
		t.Errorf("safe below %d", r.Safe())
	}
	must.OK(t, r.Close())
	must.OK(t, r.Close())
	if err := r.Put(within(t), 5, nil); err == nil || r.Safe() != 3 {
		t.Errorf("after Close: %v, safe below %d", err, r.Safe())
	}
	if _, err := f.Next(within(t), make([]live.Fragment, 1)); !errors.Is(err, errClosed) {
		t.Error(err)
	}
	f.ReleaseFragments(0)
	f.SetSafeBelow(4)
	if _, err := os.Stat(path); err == nil {
		t.Error("the name is still there")
	}
}

func TestNextEndsWithItsContext(t *testing.T) {
	f, _ := opened(t, "")
	ctx, cancel := context.WithCancel(within(t))
	ended := make(chan error, 1)
	go func() {
		_, err := f.Next(ctx, make([]live.Fragment, 1))
		ended <- err
	}()
	cancel()
	if err := patiently.Receive(t, ended, "Next still waits"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestBrokenFrontEnd: what cannot be is refused, counted, and named; the front-end learns it.
func TestBrokenFrontEnd(t *testing.T) {
	f, path := opened(t, "")
	r := attachRing(t, path, frontend.RingSettings{})
	must.OK(t, r.Put(within(t), 1, []byte("good")))
	read(t, f, 1, func(live.Fragment) {})
	dir, name := filepath.Split(path)
	seg, err := shmem.Open(name, shmem.WithDir(dir))
	must.OK(t, err)
	defer func() { must.OK(t, seg.Close()) }()
	shmem.Word64(seg.Bytes(), 0x80).Store(1 << 40)
	for range 2 {
		_, err := f.Next(within(t), make([]live.Fragment, 1))
		var broken *ring.BrokenError
		if !errors.As(err, &broken) || !strings.Contains(err.Error(), "source shm:calo") {
			t.Fatal(err)
		}
	}
	if s := f.Stats(); s.RefusedMessages != 1 || s.Fragments != 1 {
		t.Errorf("%+v", s)
	}
	if err := r.Put(within(t), 2, nil); !errors.Is(err, frontend.ErrRefused) {
		t.Error(err)
	}
}

// TestCutShort: the card of a ring cut short keeps newcomers out, and harms neither side: the memory is sealed.
func TestCutShort(t *testing.T) {
	f, path := opened(t, "")
	r := attachRing(t, path, frontend.RingSettings{})
	must.OK(t, os.Truncate(path, 0))
	must.OK(t, r.Put(within(t), 1, []byte("still there")))
	read(t, f, 1, func(live.Fragment) {})
	if _, err := frontend.OpenRing(within(t), path, frontend.RingSettings{}); err == nil {
		t.Error("opened a ring without its card")
	}
}

// TestNamesThatAreTaken: another ring's, and a file of the user's, which stays.
func TestNamesThatAreTaken(t *testing.T) {
	_, path := opened(t, "")
	var existing *shmem.SegmentError
	if _, err := Open(within(t), live.FeedSettings{Address: path, Name: "shm:twice"}); !errors.As(err, &existing) {
		t.Errorf("a ring of the same name: %v", err)
	}
	notes := filepath.Join(filepath.Dir(path), "notes")
	must.OK(t, os.WriteFile(notes, []byte("mine"), 0o600))
	if _, err := Open(within(t), live.FeedSettings{Address: notes, Name: "shm:notes"}); !errors.As(err, &existing) {
		t.Errorf("a file: %v", err)
	}
	if text, err := os.ReadFile(notes); err != nil || string(text) != "mine" {
		t.Errorf("the file: %q, %v", text, err)
	}
}

func TestAddresses(t *testing.T) {
	for text, want := range map[string]address{
		"calo":                {shmem.DefaultDir, "calo", 0},
		"/tmp/x/calo":         {"/tmp/x/", "calo", 0},
		"calo?size=64MiB":     {shmem.DefaultDir, "calo", 64 << 20},
		"calo?size=256KiB":    {shmem.DefaultDir, "calo", 256 << 10},
		"calo?size=1GiB":      {shmem.DefaultDir, "calo", 1 << 30},
		"":                    {},
		"/tmp/":               {},
		"calo?size=64":        {},
		"calo?size=1KiB":      {},
		"calo?size=257KiB":    {},
		"calo?size=-1MiB":     {},
		"calo?size=2GiB":      {},
		"calo?size=99999GiB":  {},
		"calo?sice=64MiB":     {},
		"calo?size=64MiB&x=1": {},
	} {
		got, err := parseAddress("shm:"+text, text)
		var wrong *addressError
		if want.name == "" && !errors.As(err, &wrong) || want.name != "" && (err != nil || got != want) {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}

func TestWatch(t *testing.T) {
	const absent, here, ended, departed = ring.Absent, ring.Attached, ring.Ended, ring.Detached
	type step struct {
		state      ring.State
		attached   uint64
		locked     bool
		came, went uint64
	}
	for name, steps := range map[string][]step{
		"nobody":               {{absent, 0, false, 0, 0}},
		"attached":             {{here, 1, false, 1, 0}, {here, 1, true, 0, 0}},
		"died":                 {{here, 1, true, 1, 0}, {here, 1, false, 0, 1}, {here, 1, false, 0, 0}},
		"died and came back":   {{here, 1, true, 1, 0}, {here, 1, false, 0, 1}, {here, 2, true, 1, 0}},
		"came back unnoticed":  {{here, 1, true, 1, 0}, {here, 2, true, 1, 1}},
		"three at once":        {{here, 3, true, 3, 2}},
		"left":                 {{here, 1, true, 1, 0}, {departed, 1, true, 0, 1}, {here, 2, true, 1, 0}},
		"came and left":        {{departed, 1, false, 1, 1}, {departed, 1, false, 0, 0}},
		"ended":                {{here, 1, true, 1, 0}, {ended, 1, false, 0, 0}},
		"came back and ended":  {{here, 1, true, 1, 0}, {ended, 2, false, 1, 1}},
		"left before it came?": {{departed, 0, false, 0, 0}},
	} {
		var w frontendWatch
		for i, s := range steps {
			if came, went := w.update(s.state, s.attached, s.locked); came != s.came || went != s.went {
				t.Errorf("%s, step %d: %d came, %d went, want %d and %d", name, i, came, went, s.came, s.went)
			}
		}
	}
}

func TestNoAllocations(t *testing.T) {
	f, path := opened(t, "")
	r := attachRing(t, path, frontend.RingSettings{})
	data, dst, event := make([]byte, 1000), make([]live.Fragment, 16), uint64(0)
	ctx := within(t)
	if n := testing.AllocsPerRun(1000, func() {
		for range dst {
			must.OK(t, r.Put(ctx, event, data))
			event++
		}
		n, err := f.Next(ctx, dst)
		must.OK(t, err)
		f.ReleaseFragments(n)
	}); n != 0 {
		t.Errorf("%v allocations for %d fragments", n, len(dst))
	}
}
