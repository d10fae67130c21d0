package local

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ringlet/shmem"
	"ringlet/testkit/patiently"
	"ringlet/transport/link"
)

// child is the other process of a test: peer 1, in the part it is started for. The two tell each other their offers by
// lines of hex.
type child struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	out   *bufio.Scanner
}

// benchWindow is the window of the child "sink": as large as the mapped file that the carrier is measured by.
const benchWindow = 256 << 20

// startChild starts the other process and joins it.
func startChild(t testing.TB, role string, cfg Config, setup func(*end)) (*end, *child) {
	t.Helper()
	dir := testDir(t)
	e, err := newEnd(dir, "parent", 0, 1<<20, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.close(); err != nil {
			t.Error(err)
		}
		if removed, err := shmem.Sweep("ringlet-t-child", shmem.WithDir(dir)); err != nil {
			t.Errorf("swept %v: %v", removed, err)
		}
	})
	setup(e)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := &child{cmd: exec.Command(exe)}
	c.cmd.Env = append(os.Environ(), childEnv+"="+role, "DIR="+dir, fmt.Sprintf("SPIN=%d", cfg.Spin),
		"GORACE=atexit_sleep_ms=0")
	c.cmd.Stderr = os.Stderr
	c.cmd.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.out = bufio.NewScanner(out)
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.kill)
	theirs, err := hex.DecodeString(c.line(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := e.link.Join(theirs); err != nil {
		t.Fatal(err)
	}
	e.link.Start()
	if _, err := fmt.Fprintf(c.stdin, "%x\n", e.link.Offer()); err != nil {
		t.Fatal(err)
	}
	return e, c
}

// line waits for the child's next line.
func (c *child) line(t testing.TB) string {
	t.Helper()
	if !patiently.Result(t, c.out.Scan, "the child said nothing more") {
		t.Fatalf("the child said nothing more: %v", c.out.Err())
	}
	return c.out.Text()
}

func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait() // bounded by the kernel: it was killed
}

// play is the child's side: it joins, does its part, and goes when its input ends.
func play(memory, ring int, setup func(*end), role func(*end) error) func() error {
	return func() error {
		spin, _ := time.ParseDuration(os.Getenv("SPIN") + "ns")
		e, err := newEnd(os.Getenv("DIR"), "child", 1, memory, Config{Spin: spin, Ring: ring})
		if err != nil {
			return err
		}
		setup(e)
		fmt.Printf("%x\n", e.link.Offer())
		stdin := bufio.NewReader(os.Stdin)
		line, err := stdin.ReadString('\n')
		if err != nil {
			return err
		}
		theirs, err := hex.DecodeString(strings.TrimSpace(line))
		if err == nil {
			err = e.link.Join(theirs)
		}
		if err == nil {
			e.link.Start()
			err = role(e)
		}
		if err != nil {
			return err
		}
		_, _ = io.Copy(io.Discard, stdin)
		return e.close()
	}
}

func putRef(r shmem.Ref) []byte {
	return binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, r.Window), r.Gen)
}

func getRef(b []byte) shmem.Ref {
	return shmem.Ref{Window: binary.LittleEndian.Uint32(b), Gen: binary.LittleEndian.Uint32(b[4:])}
}

// sendRefs grants the peer n windows of size bytes and tells it.
func (e *end) sendRefs(n, size int) error {
	for i := range n {
		r, err := e.table.Grant(1-e.self, e.id, i*size, size, shmem.AccessNwrite)
		if err == nil {
			err = e.link.Signal(putRef(r))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// awaitRefs waits for the windows that the peer grants.
func (e *end) awaitRefs(t testing.TB, n int) (refs []shmem.Ref) {
	e.await(t, "grants", func() bool { return len(e.signals) >= n })
	for _, s := range e.signals[:n] {
		refs = append(refs, getRef([]byte(s)))
	}
	return refs
}

func init() {
	none := func(*end) {}
	// echo answers each placement with a write of 128 bytes into the first window that it was told of.
	var back [128]byte
	var ref atomic.Uint64
	children["echo"] = play(1<<20, minRing, func(e *end) {
		e.onSignal = func(b []byte) {
			r := getRef(b)
			ref.Store(uint64(r.Window)<<32 | uint64(r.Gen))
		}
		e.onPlaced = func(p link.Placement) {
			r := ref.Load()
			w := link.Write{Ref: shmem.Ref{Window: uint32(r >> 32), Gen: uint32(r)}, Data: back[:], Imm: p.Imm}
			if err := e.link.Write(w); err != nil {
				panic(err)
			}
		}
	}, func(e *end) error { return e.sendRefs(1, 128) })
	// sink takes what comes: 100 windows of 128 bytes and one of benchWindow.
	children["sink"] = play(benchWindow+(1<<20), defaultRing, func(e *end) {
		e.onPlaced, e.onMany = func(link.Placement) {}, func([]link.Placement) {}
	}, func(e *end) error {
		if err := e.sendRefs(100, 128); err != nil {
			return err
		}
		r, err := e.table.Grant(0, e.id, 1<<20, benchWindow, shmem.AccessNwrite)
		if err != nil {
			return err
		}
		return e.link.Signal(putRef(r))
	})
	// stuck never returns from its handler, so that its mailbox fills.
	children["stuck"] = play(1<<20, minRing, func(e *end) {
		e.onPlaced = func(link.Placement) { select {} } // bounded by the test, which kills this process
	}, func(e *end) error { return e.sendRefs(1, 128) })
	// inside pins the window it is told of and stays there.
	children["inside"] = play(1<<20, minRing, none, func(e *end) error {
		var r shmem.Ref
		for found := false; !found; time.Sleep(time.Millisecond) {
			e.record(func() {
				if found = len(e.signals) > 0; found {
					r = getRef([]byte(e.signals[0]))
				}
			})
		}
		if b, v := e.link.peerTable.Acquire(r, 0, 5, shmem.AccessNwrite); v != 0 || copy(b, "child") != 5 {
			return errors.New(v.String())
		}
		fmt.Println("inside")
		return nil
	})
}

func TestTwoProcesses(t *testing.T) {
	for _, spin := range []time.Duration{0, 50 * time.Microsecond} {
		var last atomic.Uint64
		e, c := startChild(t, "echo", Config{Spin: spin},
			func(e *end) { e.onPlaced = func(p link.Placement) { last.Store(p.Imm) } })
		if err := e.sendRefs(1, 128); err != nil {
			t.Fatal(err)
		}
		ref := e.awaitRefs(t, 1)[0]
		data := make([]byte, 128)
		for i := range uint64(2000) {
			if err := e.link.Write(link.Write{Ref: ref, Data: data, Imm: i + 1}); err != nil {
				t.Fatal(err)
			}
			for end := time.Now().Add(patiently.LongTimeout); last.Load() != i+1; yield() {
				if time.Now().After(end) {
					t.Fatalf("no answer to write %d", i)
				}
			}
		}
		_ = c.stdin.Close()
		if err := patiently.Exit(t, c.cmd); err != nil {
			t.Errorf("child: %v", err)
		}
		e.await(t, "word that the peer left", func() bool { return errors.Is(e.down, ErrPeerClosed) })
	}
}

func TestWriterIsKilledWhileInside(t *testing.T) {
	e, c := startChild(t, "inside", Config{}, func(*end) {})
	if err := e.sendRefs(1, 128); err != nil {
		t.Fatal(err)
	}
	if got := c.line(t); got != "inside" || string(e.mem.Bytes()[:5]) != "child" {
		t.Fatalf("the child said %q, the memory %q", got, e.mem.Bytes()[:5])
	}
	done := make(chan int)
	go func() { done <- e.table.RevokePeer(1) }()
	select {
	case n := <-done:
		t.Fatalf("%d windows revoked under a writer", n)
	case <-time.After(20 * time.Millisecond):
	}
	c.kill()
	if err := e.link.Close(); err != nil {
		t.Error(err)
	}
	e.table.Evict(1)
	if n := patiently.Receive(t, done); n != 1 {
		t.Errorf("%d windows revoked", n)
	}
	if s := e.table.Stats(); s.Free != windows {
		t.Errorf("%+v", s)
	}
}

func TestReaderIsKilled(t *testing.T) {
	before := runtime.NumGoroutine()
	e, c := startChild(t, "stuck", Config{}, func(*end) {})
	ref := e.awaitRefs(t, 1)[0]
	done := make(chan error)
	go func() {
		var err error
		for err == nil {
			err = e.link.Write(link.Write{Ref: ref, Data: []byte("x")})
		}
		done <- err
	}()
	time.Sleep(20 * time.Millisecond)
	c.kill()
	select {
	case err := <-done:
		t.Fatalf("the dead told the writer %v", err) // the network connection does
	case <-time.After(20 * time.Millisecond):
	}
	if err := e.link.Close(); err != nil {
		t.Error(err)
	}
	if err := patiently.Receive(t, done); !errors.Is(err, ErrClosed) {
		t.Errorf("the writer was told %v", err)
	}
	if maps, fds := mapped(t, "ringlet-t-child"); maps+fds != 0 {
		t.Errorf("%d mappings and %d files of the dead are left", maps, fds)
	}
	if n := runtime.NumGoroutine(); n > before+2 { // the command's own end by themselves
		t.Errorf("%d goroutines, %d before", n, before)
	}
}
