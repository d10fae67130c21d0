package ctl

import (
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"ringlet/testkit/patiently"
)

// somebody types, a piece at a time, each when what the last one led to has been seen.
type somebody struct {
	keys  io.Writer
	sees  *outputWatch
	until *int // how much has been seen
}

func (s somebody) types(t *testing.T, keys, sees string) {
	t.Helper()
	if _, err := io.WriteString(s.keys, keys); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patiently.LongTimeout); ; time.Sleep(time.Millisecond) {
		all := s.sees.String()
		if i := strings.Index(all[*s.until:], sees); i >= 0 {
			*s.until += i + len(sees)
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %q there is no %q in %q", keys, sees, all[*s.until:])
		}
	}
}

func TestInteractive(t *testing.T) {
	h := newFixture(t)
	in, keys := io.Pipe()
	sees := &outputWatch{seen: make(chan struct{}), what: "\x00"}
	interrupts := make(chan os.Signal, 1)
	raw := 0
	s := h.session("alice", sees)
	ended := make(chan error, 1)
	t.Cleanup(func() { _ = keys.Close() })
	go func() {
		ended <- s.RunInteractive(t.Context(), Terminal{
			In:         in,
			Out:        sees,
			Interrupts: interrupts,
			MakeRaw:    func() (func(), error) { raw++; return func() { raw-- }, nil },
			Size:       func() (int, int, error) { return 400, 50, nil },
		})
	}()
	me := somebody{keys, sees, new(int)}
	me.types(t, "", "ringlet Offline> ")
	me.types(t, "lo", "lo")
	me.types(t, "\t", "load  logs")         // what it could be
	me.types(t, "a\tpacki\t9", "packing=9") // what it must be
	me.types(t, "\r", "load: load was done")
	me.types(t, "", "ringlet NotReady> ")
	me.types(t, "stop nonsense\x03", "ringlet NotReady> ") // given up
	me.types(t, "configure start\r", "ringlet Running> ")
	me.types(t, "wait end\r", "\n")
	released := make(chan struct{})
	var pressing sync.WaitGroup
	pressing.Go(func() { // again and again: one that comes before the command is not for it
		for {
			select {
			case interrupts <- os.Interrupt:
			case <-released:
				return
			}
		}
	})
	me.types(t, "", "a run too (ringlet ctl stop ends it)")
	close(released)
	patiently.Wait(t, pressing.Wait)
	me.types(t, "", "ringlet Running> ")
	me.types(t, "stop\r", "Do it? [y/N] ")
	me.types(t, "n\r", "stop: not done")
	me.types(t, "", "ringlet Running> ")
	me.types(t, "\x1b[A", "stop") // the line before, and not the answer
	me.types(t, "\r", "Do it? [y/N] ")
	me.types(t, "y\r", "stop: stop was done")
	me.types(t, "", "ringlet Ready> ")
	me.types(t, "pause\r", "pause: the partition cannot pause in state Ready")
	me.types(t, "'\r", "a quotation mark is not closed")
	me.types(t, "", "ringlet Ready> ")
	h.stop()
	me.types(t, "status\r", "no control answers")
	me.types(t, "", "ringlet (no control)> ")
	me.types(t, "\x04", "\n")
	if err := patiently.Receive(t, ended); err != nil || raw != 0 {
		t.Errorf("%v, and the terminal is raw %d times over", err, raw)
	}
	if err := errors.Join(in.Close(), keys.Close()); err != nil {
		t.Error(err)
	}
}
