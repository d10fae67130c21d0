package shmring

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"ringlet/clients/frontend"
	"ringlet/source/live"
	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
)

// children are the roles of other processes in these tests.
var children = map[string]func() error{
	// produce goes on where the last one stopped, and never ends by itself.
	"produce": func() error {
		r, err := frontend.OpenRing(context.Background(), os.Getenv("RING"), frontend.RingSettings{})
		if err != nil {
			return err
		}
		fmt.Println(r.Expected())
		for e := r.Expected(); ; e++ {
			size := 8 + int(e*7919%2000)
			place, err := r.Reserve(context.Background(), size)
			if err != nil {
				return err
			}
			for i := range place {
				place[i] = byte(e)
			}
			binary.LittleEndian.PutUint64(place, e)
			if err := r.Commit(e, size); err != nil {
				return err
			}
		}
	},
	// consume makes a ring and dies with it.
	"consume": func() error {
		f, err := Open(context.Background(), live.FeedSettings{Address: os.Getenv("RING") + "?size=256KiB"})
		if err != nil {
			return err
		}
		fmt.Println("ready")
		_, _ = bufio.NewReader(os.Stdin).ReadByte()
		return f.Close()
	},
}

// start starts another process of this test's binary, and returns what it says first.
func start(t *testing.T, role, path string) (*exec.Cmd, string) {
	t.Helper()
	exe, err := os.Executable()
	must.OK(t, err)
	c := exec.Command(exe)
	c.Env = append(os.Environ(), childEnv+"="+role, "RING="+path, "GORACE=atexit_sleep_ms=0")
	c.Stderr = os.Stderr
	c.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
	in, err := c.StdinPipe()
	must.OK(t, err)
	out, err := c.StdoutPipe()
	must.OK(t, err)
	must.OK(t, c.Start())
	t.Cleanup(func() {
		_ = in.Close()
		kill(c)
	})
	lines := bufio.NewScanner(out)
	if !patiently.Result(t, lines.Scan, "the child said nothing") {
		t.Fatalf("%s said nothing: %v", role, lines.Err())
	}
	return c, lines.Text()
}

func kill(c *exec.Cmd) {
	_ = c.Process.Kill()
	_ = c.Wait() // bounded by the kernel: it was killed
}

// TestKilledFrontEnds: front-ends are killed wherever they are, and each next one goes on. Every event comes once,
// whole.
func TestKilledFrontEnds(t *testing.T) {
	f, path := opened(t, "?size=256KiB")
	next := uint64(0)
	see := func(g live.Fragment) {
		if g.Event != next || len(g.Data) != 8+int(next*7919%2000) || binary.LittleEndian.Uint64(g.Data) != next {
			t.Fatalf("event %d of %d bytes, want event %d", g.Event, len(g.Data), next)
		}
		for _, b := range g.Data[8:] {
			if b != byte(next) {
				t.Fatalf("event %d holds %#x", next, b)
			}
		}
		next++
	}
	const rounds = 12
	for range rounds {
		c, _ := start(t, "produce", path)
		read(t, f, 1+rand.IntN(5000), see)
		kill(c)
	}
	// The rest of the last one, and then nothing; its death is noticed all the same.
	dst := make([]live.Fragment, 64)
	for f.Stats().FrontendsGone < rounds {
		ctx, cancel := context.WithTimeout(context.Background(), livenessInterval)
		n, err := f.Next(ctx, dst)
		cancel()
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		for _, g := range dst[:n] {
			see(g)
		}
		f.ReleaseFragments(n)
	}
	r := attachRing(t, path, frontend.RingSettings{})
	if r.Expected() != next {
		t.Errorf("expected %d, read up to %d", r.Expected(), next)
	}
	if s := f.Stats(); s.Fragments != next || s.FrontendsAttached != rounds || s.FrontendsGone != rounds ||
		s.RefusedMessages != 0 {
		t.Errorf("%+v, want %d fragments", s, next)
	}
}

// TestKilledReadoutUnit: a front-end that waits for room learns of the death; the name is free for the next run, and a
// front-end that looks for the ring meanwhile waits for it.
func TestKilledReadoutUnit(t *testing.T) {
	path := must.MemoryDir(t) + "/calo"
	c, _ := start(t, "consume", path)
	r := attachRing(t, path, frontend.RingSettings{})
	kill(c)
	for e := uint64(0); ; e++ {
		if err := r.Put(within(t), e, make([]byte, 60_000)); err != nil {
			if !errors.Is(err, frontend.ErrGone) {
				t.Error(err)
			}
			break
		}
	}
	must.OK(t, r.Close())
	over, cancel := context.WithCancel(within(t))
	cancel()
	if _, err := frontend.OpenRing(over, path, frontend.RingSettings{}); !errors.Is(err, frontend.ErrNoRing) {
		t.Errorf("%v", err)
	}
	f, err := Open(within(t), live.FeedSettings{Address: path, Name: "shm:calo"})
	must.OK(t, err)
	must.OK(t, f.Close())
}
