package frontend_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ringlet/clients/frontend"
	"ringlet/event"
	"ringlet/source/live"
	"ringlet/testkit/compiled"
	"ringlet/testkit/interpreted"
	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
)

const wordsEvents = 3000

// words are those of event e: none, a trigger number, a time stamp, both.
func words(e uint64) (w frontend.Words) {
	if e&1 > 0 {
		w.HasTrigger, w.Trigger = true, e*3
	}
	if e&2 > 0 {
		w.HasStamp, w.Stamp = true, e*7+1<<60
	}
	return w
}

// TestWords: trigger numbers and time stamps of the clients in Go, C and Python arrive with their fragments, once each,
// also where the connection breaks and fragments are sent again.
func TestWords(t *testing.T) {
	run := func(command ...string) func(t *testing.T, address string) error {
		return func(t *testing.T, address string) error {
			out, err := exec.CommandContext(t.Context(), command[0],
				append(command[1:], address, fmt.Sprint(wordsEvents))...).CombinedOutput()
			return says(err, out)
		}
	}
	for name, send := range map[string]func(t *testing.T, address string) error{
		"go":           func(t *testing.T, address string) error { return sendWords(t, address, false) },
		"go unchecked": func(t *testing.T, address string) error { return sendWords(t, address, true) },
		"c":            run(compiled.C(t, "../c", "testdata/words.c")),
		"c++":          run(compiled.CXX(t, "../c", "testdata/words.c")),
		"python":       run(append(interpreted.Python(t, "../python"), filepath.Join("testdata", "words.py"))...),
	} {
		t.Run(name, func(t *testing.T) {
			f, path := openStream(t)
			built := make(chan error, 1)
			ctx := longContext(t)
			go func() { built <- buildWords(ctx, f) }()
			must.OK(t, send(t, cutter(t, path)))
			must.OK(t, patiently.Receive(t, built, "no end"))
			if f.Stats().FrontendsGone == 0 {
				t.Error("the connection did not break")
			}
		})
	}
}

func sendWords(t *testing.T, address string, unchecked bool) error {
	ctx := longContext(t)
	s, err := frontend.Dial(ctx, address, frontend.StreamSettings{Unchecked: unchecked, Keep: 1 << 17})
	if err != nil {
		return err
	}
	for e := range uint64(wordsEvents) {
		if err := s.SendWith(ctx, e, words(e), bytes.Repeat([]byte{byte(e)}, int(e%100))); err != nil {
			return err
		}
	}
	return s.Close(ctx)
}

func buildWords(ctx context.Context, f live.Feed) error {
	dst := make([]live.Fragment, 64)
	for next := uint64(0); ; {
		n, err := f.Next(ctx, dst)
		if errors.Is(err, io.EOF) && next == wordsEvents {
			f.SetSafeBelow(next)
			return nil
		}
		if err != nil {
			return err
		}
		for _, g := range dst[:n] {
			want := live.Fragment{Event: next, Type: 51, Data: bytes.Repeat([]byte{byte(next)}, int(next%100)),
				Words: event.Words(words(next))}
			if d := cmp.Diff(want, g); d != "" {
				return errors.New(d)
			}
			next++
		}
		f.SetResumeEvent(next)
		f.ReleaseFragments(n)
		if next > 500 {
			f.SetSafeBelow(next - 500)
		}
	}
}

// TestTheLeastKeep: the smallest memory that a stream takes has room for the largest fragment with both words.
func TestTheLeastKeep(t *testing.T) {
	const least, full = 36 + 65535, 65535
	for name, send := range map[string]func(t *testing.T, address string) error{
		"go": func(t *testing.T, address string) error {
			if _, err := frontend.Dial(t.Context(), address, frontend.StreamSettings{Keep: least - 1}); err == nil {
				return errors.New("a smaller one is taken")
			}
			ctx := longContext(t)
			s, err := frontend.Dial(ctx, address, frontend.StreamSettings{Keep: least})
			for e := uint64(0); err == nil && e < 3; e++ {
				err = s.SendWith(ctx, e, words(3), make([]byte, full))
			}
			if err != nil {
				return err
			}
			return s.Close(ctx)
		},
		"c": func(t *testing.T, address string) error {
			out, err := exec.CommandContext(t.Context(), compiled.C(t, "../c", "testdata/words.c"), address, "3",
				"full").CombinedOutput()
			return says(err, out)
		},
	} {
		t.Run(name, func(t *testing.T) {
			f, path := openStream(t)
			ctx, sent := longContext(t), make(chan error, 1)
			go func() { sent <- send(t, "unix:"+path) }()
			dst := make([]live.Fragment, 4)
			for next := uint64(0); ; {
				n, err := f.Next(ctx, dst)
				for _, g := range dst[:n] {
					if g.Event != next || len(g.Data) != full || !g.HasTrigger || !g.HasStamp {
						t.Errorf("event %d has %d bytes and %+v, where event %d is due", g.Event, len(g.Data), g.Words, next)
					}
					next++
				}
				f.SetResumeEvent(next)
				f.ReleaseFragments(n)
				f.SetSafeBelow(next)
				if err != nil {
					if !errors.Is(err, io.EOF) || next != 3 {
						t.Errorf("%v after %d events", err, next)
					}
					break
				}
			}
			must.OK(t, patiently.Receive(t, sent, "it does not end"))
		})
	}
}

// TestWordsOfARing: they arrive from the clients in Go, C and Python by a ring, too.
func TestWordsOfARing(t *testing.T) {
	run := func(command ...string) func(t *testing.T, ring string) error {
		return func(t *testing.T, ring string) error {
			out, err := exec.CommandContext(t.Context(), command[0],
				append(command[1:], ring, fmt.Sprint(wordsEvents))...).CombinedOutput()
			return says(err, out)
		}
	}
	for name, send := range map[string]func(t *testing.T, ring string) error{
		"go": func(t *testing.T, ring string) error {
			r, err := frontend.OpenRing(longContext(t), ring, frontend.RingSettings{})
			for e := uint64(0); err == nil && e < wordsEvents; e++ {
				err = r.PutWith(longContext(t), e, words(e), bytes.Repeat([]byte{byte(e)}, int(e%100)))
			}
			if err != nil {
				return err
			}
			return r.End()
		},
		"c":      run(compiled.C(t, "../c", "testdata/ringwords.c")),
		"c++":    run(compiled.CXX(t, "../c", "testdata/ringwords.c")),
		"python": run(python(t, filepath.Join("testdata", "ringwords.py"))...),
	} {
		t.Run(name, func(t *testing.T) {
			f, ring := openFeed(t, "?size=256KiB")
			built := make(chan error, 1)
			ctx := longContext(t)
			go func() { built <- buildWords(ctx, f) }()
			must.OK(t, send(t, ring))
			must.OK(t, patiently.Receive(t, built, "no end"))
		})
	}
}
