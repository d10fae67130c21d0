package shmem

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"ringlet/testkit/must"
)

func init() {
	// reader sums all entries up to the end of the run, as testdata/reader.c does.
	children["reader"] = func() error {
		r, err := OpenReader(os.Getenv("NAME"), WithDir(os.Getenv("DIR")))
		if err != nil {
			return err
		}
		say("ready")
		step, err := strconv.Atoi(os.Getenv("STEP"))
		if err != nil {
			return err
		}
		var entries, bytes, sum uint64
		for {
			var e Entry
			if e, err = r.Next(context.Background()); err != nil {
				break
			}
			for i := 0; i < len(e.Data); i += step {
				sum += uint64(e.Data[i])
			}
			entries, bytes = entries+1, bytes+uint64(len(e.Data))
			if err = r.Ack(e); err != nil {
				break
			}
		}
		if !errors.Is(err, ErrEndOfRun) {
			return err
		}
		say("entries %d bytes %d sum %d", entries, bytes, sum)
		return r.Close()
	}
	// holder takes two entries, gives one back, and lives on until it is killed.
	children["holder"] = func() error {
		r, err := OpenReader(os.Getenv("NAME"), WithDir(os.Getenv("DIR")))
		if err != nil {
			return err
		}
		say("ready")
		var e Entry
		for range 2 {
			if e, err = r.Next(context.Background()); err != nil {
				return err
			}
		}
		if err := r.Ack(e); err != nil {
			return err
		}
		say("holding")
		hold()
		return nil
	}
	// writer writes three entries and lives on until it is killed.
	children["writer"] = func() error {
		w, err := CreateWriter(os.Getenv("NAME"), 4*PageSize, Broadcast, WithDir(os.Getenv("DIR")))
		if err != nil {
			return err
		}
		for i := range 3 {
			p, err := w.Reserve(context.Background(), 8)
			if err != nil {
				return err
			}
			if err := w.Commit(p, 8, uint32(i)); err != nil {
				return err
			}
		}
		say("ready")
		hold()
		return nil
	}
}

// feed writes n entries of many sizes and returns what readers must say about them.
func feed(t *testing.T, w *Writer, n int) string {
	t.Helper()
	var bytes, sum uint64
	for i := range n {
		size := (i * 37) % 700
		putEntry(t, w, uint32(i), size)
		for j := range size {
			sum += uint64(byte(i) + byte(j))
		}
		bytes += uint64(size)
	}
	if err := w.End(); err != nil {
		t.Error(err)
	}
	return fmt.Sprintf("entries %d bytes %d sum %d", n, bytes, sum)
}

func TestBufferBetweenProcesses(t *testing.T) {
	dir := must.MemoryDir(t)
	w, err := CreateWriter("ringlet-1-buf", 2*PageSize, Broadcast, WithDir(dir))
	must.OK(t, err)
	defer func() { _ = w.Close() }()
	var readers []*child
	for range 2 {
		c := startChild(t, "reader", "DIR="+dir, "NAME=ringlet-1-buf", "STEP=1")
		c.line(t)
		readers = append(readers, c)
	}
	must.OK(t, waitReaders(t.Context(), w, 2))
	want := feed(t, w, 3000)
	for _, c := range readers {
		if got := c.line(t); got != want {
			t.Errorf("reader: %s; want %s", got, want)
		}
		c.finish(t)
	}
	if attached(w) != 0 || w.core.buffer.entriesLost.Load() != 0 {
		t.Errorf("%d readers, %d lost", attached(w), w.core.buffer.entriesLost.Load())
	}
}

func TestDeadReaderIsDetached(t *testing.T) {
	for _, mode := range []Mode{Broadcast, Sharing} {
		t.Run(mode.String(), func(t *testing.T) {
			dir := must.MemoryDir(t)
			w, err := CreateWriter("ringlet-1-buf", PageSize, mode, WithDir(dir))
			must.OK(t, err)
			defer func() { _ = w.Close() }()
			c := startChild(t, "holder", "DIR="+dir, "NAME=ringlet-1-buf")
			c.line(t)
			putEntry(t, w, 1, w.core.buffer.maxEntry())
			putEntry(t, w, 2, w.core.buffer.maxEntry())
			c.line(t)
			if dead, err := w.DetachDead(); err != nil || len(dead) != 0 {
				t.Fatalf("the living was detached: %v, %v", dead, err)
			}
			c.kill()
			if _, err := w.Reserve(t.Context(), 8); !errors.Is(err, ErrReaderDead) {
				t.Errorf("reserve with a dead reader: %v", err)
			}
			dead, err := w.DetachDead()
			if err != nil || len(dead) != 1 || dead[0].PID != c.cmd.Process.Pid || dead[0].Unacked != 1 {
				t.Errorf("detached %+v, %v", dead, err)
			}
			if w.core.buffer.entriesLost.Load() != 1 || attached(w) != 0 {
				t.Errorf("lost %d, %d readers", w.core.buffer.entriesLost.Load(), attached(w))
			}
			if mode == Sharing {
				putEntry(t, w, 3, 8) // its claims are void
				return
			}
			// Broadcast keeps what nobody acknowledged for whoever comes.
			r, err := OpenReader("ringlet-1-buf", WithDir(dir))
			must.OK(t, err)
			defer func() { _ = r.Close() }()
			for _, want := range []uint32{1, 2} {
				if id, err := readEntry(r); id != want || err != nil {
					t.Errorf("entry %d, %v; want %d", id, err, want)
				}
			}
			putEntry(t, w, 3, 8)
		})
	}
}

func TestDeadWriterIsNoticed(t *testing.T) {
	dir := must.MemoryDir(t)
	c := startChild(t, "writer", "DIR="+dir, "NAME=ringlet-1-buf")
	c.line(t)
	r, err := OpenReader("ringlet-1-buf", WithDir(dir))
	must.OK(t, err)
	defer func() { _ = r.Close() }()
	c.kill()
	for want := range uint32(3) {
		e, err := r.Next(t.Context())
		if err != nil || e.Type != want || r.Ack(e) != nil {
			t.Errorf("entry %d, %v; want %d", e.Type, err, want)
		}
	}
	if _, err := r.Next(t.Context()); !errors.Is(err, ErrWriterGone) {
		t.Errorf("after the last: %v", err)
	}
	if removed, err := Sweep("ringlet-1-", WithDir(dir)); len(removed) != 1 || err != nil {
		t.Errorf("swept %v, %v", removed, err)
	}
}

// cReader compiles the reader that docs/format/buffer.md describes.
func cReader(t *testing.T) string {
	t.Helper()
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("SKIPPED: no gcc, so the layout is not tested from C")
	}
	exe := filepath.Join(t.TempDir(), "reader")
	if out, err := exec.Command(gcc, "-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-o", exe,
		"testdata/reader.c").CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	return exe
}

// TestCReader lets it read.
func TestCReader(t *testing.T) {
	exe := cReader(t)
	for _, mode := range []Mode{Broadcast, Sharing} {
		t.Run(mode.String(), func(t *testing.T) {
			dir := must.MemoryDir(t)
			w, err := CreateWriter("ringlet-1-buf", 2*PageSize, mode, WithDir(dir))
			must.OK(t, err)
			defer func() { _ = w.Close() }()
			cmd := exec.Command(exe, filepath.Join(dir, "ringlet-1-buf"))
			cmd.Stderr = os.Stderr
			out, err := cmd.StdoutPipe()
			must.OK(t, err)
			must.OK(t, cmd.Start())
			c := &child{cmd: cmd, out: bufio.NewScanner(out), in: nopCloser{}}
			t.Cleanup(c.kill)
			c.line(t)
			want := feed(t, w, 3000)
			if got := c.line(t); got != want {
				t.Errorf("C says: %s; want %s", got, want)
			}
			c.finish(t)
			if err := w.drain(t.Context()); err != nil || attached(w) != 0 {
				t.Errorf("drain: %v; %d readers", err, attached(w))
			}
		})
	}
}

type nopCloser struct{}

func (nopCloser) Write(p []byte) (int, error) { return len(p), nil }
func (nopCloser) Close() error                { return nil }
