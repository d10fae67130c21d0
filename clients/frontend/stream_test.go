package frontend_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ringlet/clients/frontend"
	"ringlet/source/frames"
	"ringlet/source/live"
	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
)

// openStream opens a feed at a socket in a directory of the test.
func openStream(t testing.TB) (live.Feed, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "feed")
	f, err := frames.OpenUnix(t.Context(), live.FeedSettings{
		Address:  path,
		SourceID: 7,
		Name:     "unix:" + path,
		Run:      42,
	})
	must.OK(t, err)
	t.Cleanup(func() { must.OK(t, f.Close()) })
	return f, path
}

// longContext ends what a test waits for in vain.
func longContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patiently.LongTimeout)
	t.Cleanup(cancel)
	return ctx
}

// fragment is what event e has.
func fragment(e uint64) []byte { return bytes.Repeat([]byte(fmt.Sprintf("%d.", e)), int(e%100)) }

// build takes all fragments of a run as a readout unit does, and tells what is safe, late.
func build(ctx context.Context, f live.Feed, n uint64) error {
	var dst [64]live.Fragment
	var next uint64
	for {
		k, err := f.Next(ctx, dst[:])
		if errors.Is(err, io.EOF) && next == n {
			f.SetSafeBelow(n)
			return nil
		}
		if err != nil {
			return err
		}
		for _, g := range dst[:k] {
			if g.Event != next || !bytes.Equal(g.Data, fragment(next)) {
				return fmt.Errorf("event %d has %d bytes, where event %d is due", g.Event, len(g.Data), next)
			}
			next++
		}
		f.SetResumeEvent(next)
		f.ReleaseFragments(k)
		if next > 1000 {
			f.SetSafeBelow(next - 1000)
		}
	}
}

// cutter passes connections on, and cuts each after a number of bytes that grows.
func cutter(t *testing.T, to string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cutter")
	lis, err := net.Listen("unix", path)
	must.OK(t, err)
	over := make(chan struct{})
	go func() {
		defer close(over)
		for most := int64(1000); ; most *= 2 {
			c, err := lis.Accept()
			if err != nil {
				return
			}
			d, err := net.Dial("unix", to)
			if err != nil {
				_ = c.Close()
				continue
			}
			back := make(chan struct{})
			go func() {
				defer close(back)
				_, _ = io.Copy(c, d)
				_ = c.Close() // the readout unit has closed it
			}()
			_, _ = io.CopyN(d, c, most)
			_, _ = c.Close(), d.Close()
			<-back
		}
	}()
	t.Cleanup(func() {
		_ = lis.Close()
		patiently.Receive(t, over, "the cutter goes on")
	})
	return "unix:" + path
}

// TestStreamOverBreaks: whatever breaks the connection, each fragment is there once, in order, and all are safe in the
// end. The stream keeps far less than is sent.
func TestStreamOverBreaks(t *testing.T) {
	f, path := openStream(t)
	const n = 50_000
	ctx := longContext(t)
	built := make(chan error, 1)
	go func() { built <- build(ctx, f, n) }()
	s, err := frontend.Dial(ctx, cutter(t, path), frontend.StreamSettings{Name: "cut", Keep: 1 << 20})
	must.OK(t, err)
	for e := range uint64(n) {
		must.OK(t, s.Send(ctx, e, fragment(e)))
	}
	must.OK(t, s.Close(ctx))
	must.OK(t, patiently.Receive(t, built, "no end"))
	if s.Acked() != n || f.Stats().FrontendsGone < 5 || f.Stats().Fragments != n {
		t.Errorf("%d are safe, %+v", s.Acked(), f.Stats())
	}
	t.Logf("%+v", f.Stats())
}

// TestStreamToAnother: a readout unit that is started again knows nothing, and gets all that is not safe.
func TestStreamToAnother(t *testing.T) {
	f, path := openStream(t)
	ctx := longContext(t)
	s, err := frontend.Dial(ctx, "unix:"+path, frontend.StreamSettings{Unchecked: true})
	must.OK(t, err)
	for e := range uint64(100) {
		must.OK(t, s.Send(ctx, e, fragment(e)))
	}
	var dst [100]live.Fragment
	for got := 0; got < 100; {
		k, err := f.Next(ctx, dst[:])
		must.OK(t, err)
		got += k
	}
	f.SetSafeBelow(60)
	must.OK(t, f.Close())
	set := live.FeedSettings{Address: path, Name: "again", SourceID: 7}
	again, err := frames.OpenUnix(ctx, set)
	must.OK(t, err)
	defer again.Close()
	ended := make(chan error, 1)
	go func() { ended <- s.Close(ctx) }()
	for e := uint64(60); e < 100; {
		k, err := again.Next(ctx, dst[:])
		must.OK(t, err)
		for _, g := range dst[:k] {
			if g.Event != e || !bytes.Equal(g.Data, fragment(e)) {
				t.Fatalf("event %d, where %d is due", g.Event, e)
			}
			e++
		}
		again.ReleaseFragments(k)
	}
	again.SetSafeBelow(100)
	must.OK(t, patiently.Receive(t, ended, "the stream does not end"))
	if s.Acked() != 100 {
		t.Error(s.Acked())
	}
}

// TestStreamRefused: a refusal that does not pass is told by Dial, and one that comes later by Send or Close.
func TestStreamRefused(t *testing.T) {
	f, path := openStream(t)
	_, err := frontend.Dial(longContext(t), "unix:"+path, frontend.StreamSettings{Source: 8})
	var refused *frontend.StreamError
	if !errors.As(err, &refused) || refused.Code != 3 || !strings.Contains(err.Error(), "source 8") {
		t.Error(err)
	}
	s, err := frontend.Dial(longContext(t), "unix:"+path, frontend.StreamSettings{Source: 7, Run: 42, Type: 9})
	must.OK(t, err)
	short, cancel := context.WithCancel(t.Context())
	second := make(chan error, 1)
	go func() {
		_, err := frontend.Dial(short, "unix:"+path, frontend.StreamSettings{})
		second <- err
	}()
	patiently.Until(t, "it tries again", func() bool { return f.Stats().RefusedMessages >= 4 })
	cancel()
	if err := patiently.Receive(t, second, "it tries on"); !errors.As(err, &refused) || refused.Code != 5 ||
		!errors.Is(err, context.Canceled) {
		t.Errorf("a second front-end: %v", err)
	}
	must.OK(t, s.Send(longContext(t), 5, nil))
	if err := s.Send(longContext(t), 5, nil); err == nil || !strings.Contains(err.Error(), "must grow") {
		t.Error(err)
	}
	if err := s.Send(longContext(t), 6, make([]byte, 1<<16)); err == nil {
		t.Error("65,536 bytes are sent")
	}
	var dst [1]live.Fragment
	if _, err := f.Next(longContext(t), dst[:]); err != nil || dst[0].Event != 5 || dst[0].Type != 9 {
		t.Errorf("%+v, %v", dst[0], err)
	}
	if err := s.Close(short); err == nil || !strings.Contains(err.Error(), "ends at event 6, and events from 5 on") {
		t.Error(err)
	}
	if s.Next() != 0 {
		t.Error(s.Next())
	}
}

// TestStreamFull: Send waits when all that is kept is not safe, until its context is over.
func TestStreamFull(t *testing.T) {
	f, path := openStream(t)
	s, err := frontend.Dial(longContext(t), "unix:"+path, frontend.StreamSettings{Keep: 1 << 17})
	must.OK(t, err)
	for e := range uint64(3) {
		must.OK(t, s.Send(longContext(t), e, make([]byte, 1<<15)))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := s.Send(ctx, 3, make([]byte, 1<<15)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("event 3: %v", err)
	}
	f.SetSafeBelow(2)
	must.OK(t, s.Send(longContext(t), 7, make([]byte, 1<<15)))
	f.SetSafeBelow(8)
	must.OK(t, s.Close(longContext(t)))
}

// TestSendAllocatesNothing holds Send at no allocation for a fragment.
func TestSendAllocatesNothing(t *testing.T) {
	f, path := openStream(t)
	ctx := longContext(t)
	s, err := frontend.Dial(ctx, "unix:"+path, frontend.StreamSettings{})
	must.OK(t, err)
	data, dst := make([]byte, 300), make([]live.Fragment, 2000)
	var next uint64
	if n := testing.AllocsPerRun(20, func() {
		for range len(dst) {
			must.OK(t, s.Send(ctx, next, data))
			next++
		}
		for got := 0; got < len(dst); {
			n, err := f.Next(ctx, dst)
			must.OK(t, err)
			f.ReleaseFragments(n)
			got += n
		}
		f.SetSafeBelow(next)
	}); n > 10 {
		t.Errorf("%v allocations for %d fragments", n, len(dst))
	}
	must.OK(t, s.Close(ctx))
}

// BenchmarkStream is a front-end's Send, to a readout unit that drops what comes.
func BenchmarkStream(b *testing.B) {
	f, path := openStream(b)
	s, err := frontend.Dial(b.Context(), "unix:"+path, frontend.StreamSettings{})
	must.OK(b, err)
	over := make(chan error, 1)
	b.SetBytes(1024)
	b.ResetTimer()
	go func() {
		var dst [1024]live.Fragment
		for {
			n, err := f.Next(b.Context(), dst[:])
			if err != nil {
				over <- err
				return
			}
			f.ReleaseFragments(n)
			f.SetSafeBelow(dst[n-1].Event + 1)
		}
	}()
	data := make([]byte, 1024)
	for e := range uint64(b.N) {
		must.OK(b, s.Send(b.Context(), e, data))
	}
	must.OK(b, s.Close(b.Context()))
	if err := <-over; !errors.Is(err, io.EOF) {
		b.Error(err)
	}
}

// TestStreamTCP: as over a Unix-domain socket.
func TestStreamTCP(t *testing.T) {
	f, err := frames.OpenTCP(t.Context(), live.FeedSettings{Address: "127.0.0.1:0", Name: "tcp"})
	must.OK(t, err)
	defer f.Close()
	ctx := longContext(t)
	built := make(chan error, 1)
	go func() { built <- build(ctx, f, 1500) }()
	s, err := frontend.Dial(ctx, "tcp:"+f.(interface{ Addr() string }).Addr(), frontend.StreamSettings{})
	must.OK(t, err)
	fill(ctx, t, s, 1500)
	must.OK(t, patiently.Receive(t, built, "no end"))
}

// fill sends a whole run.
func fill(ctx context.Context, t *testing.T, s *frontend.Stream, n uint64) {
	for e := range n {
		must.OK(t, s.Send(ctx, e, fragment(e)))
	}
	must.OK(t, s.Close(ctx))
}

// TestStreamProgram: a program that a readout unit runs, which is this test again. What it prints is no part of the
// stream.
func TestStreamProgram(t *testing.T) {
	const variable, n = "RINGLET_TEST_PROGRAM", 1500
	if os.Getenv(variable) != "" {
		fmt.Fprintln(os.Stderr, "begins")
		s, err := frontend.Dial(longContext(t), "exec:", frontend.StreamSettings{})
		must.OK(t, err)
		fmt.Println("prints")
		fill(longContext(t), t, s, n)
		return
	}
	self, err := os.Executable()
	must.OK(t, err)
	f, err := frames.OpenExec(t.Context(), live.FeedSettings{
		Address: fmt.Sprintf("%s=1 exec '%s' -test.run '^TestStreamProgram$'", variable, self),
		Name:    "exec",
	})
	must.OK(t, err)
	defer f.Close()
	must.OK(t, build(longContext(t), f, n))
	if s := f.Stats(); s.FrontendsAttached != 1 || s.RefusedMessages != 0 {
		t.Errorf("%+v", s)
	}
}
