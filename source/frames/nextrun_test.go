package frames

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"ringlet/clients/frontend"
	"ringlet/source/live"
	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
)

// runs takes fragments of one front-end through runs in a row: of each run but the last so many, and then it is closed
// while the front-end goes on sending. Every second run has taken more than became safe. It returns an error unless
// each event was in one run, by what was safe.
func runs(ctx context.Context, path string, n uint64, each ...uint64) error {
	next := uint64(0)
	for i := 0; i <= len(each); i++ {
		s := settings(path)
		s.Run = uint64(i + 1)
		f, err := OpenUnix(ctx, s)
		if err != nil {
			return err
		}
		until := n
		if i < len(each) {
			until = next + each[i]
		}
		due := next
		dst := make([]live.Fragment, 100)
		for due < until && err == nil {
			var k int
			k, err = f.Next(ctx, dst)
			for _, g := range dst[:k] {
				if g.Event != due || !bytes.Equal(g.Data, data(due)) {
					err = errors.Join(err, fmt.Errorf("run %d: event %d with %d bytes, where %d is due", i+1, g.Event,
						len(g.Data), due))
				}
				due++
			}
			f.SetResumeEvent(due)
			f.ReleaseFragments(k)
		}
		next = due - uint64(i%2)*min(50, due-next) // a run leaves over what it has taken and not built
		if i == len(each) {
			next = due
		}
		f.SetSafeBelow(next)
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// TestNextRun: a front-end that goes on through the ends of runs is in all of them together once, in order.
func TestNextRun(t *testing.T) {
	const n = 60_000
	path := filepath.Join(t.TempDir(), "feed")
	ctx, cancel := context.WithTimeout(t.Context(), patiently.LongTimeout)
	defer cancel()
	sent := make(chan error, 1)
	go func() {
		s, err := frontend.Dial(ctx, "unix:"+path, frontend.StreamSettings{})
		for e := uint64(0); e < n && err == nil; e++ {
			err = s.Send(ctx, e, data(e))
		}
		if err == nil {
			err = s.Close(ctx)
		}
		sent <- err
	}()
	must.OK(t, runs(ctx, path, n, 1, 5000, 10_000, 7, 20_000))
	must.OK(t, patiently.Receive(t, sent))
}

// TestNextRunOfPython: so is one in Python, which keeps its fragments in batches.
func TestNextRunOfPython(t *testing.T) {
	const n = 60_000
	path := filepath.Join(t.TempDir(), "feed")
	ctx, cancel := context.WithTimeout(t.Context(), 2*patiently.LongTimeout)
	defer cancel()
	cmd := python(t, "frontend.py", "unix:"+path, fmt.Sprint(n), "0")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	must.OK(t, cmd.Start())
	if err := runs(ctx, path, n, 1, 5000, 10_000, 7, 20_000); err != nil {
		_ = cmd.Process.Kill()
		_ = patiently.Exit(t, cmd)
		t.Fatalf("%v; %s", err, &out)
	}
	if err := patiently.Exit(t, cmd); err != nil {
		t.Errorf("%v: %s", err, &out)
	}
}
