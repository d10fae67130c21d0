package frontend_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ringlet/clients/frontend"
	"ringlet/source/live"
	"ringlet/testkit/compiled"
	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
)

// frontendFeed is what a feed of a ring says of its front-end.
type frontendFeed interface {
	Frontend() string
	Explain() string
}

// script writes a program and says how it is started.
func script(t *testing.T, name, text string) []string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must.OK(t, os.WriteFile(path, []byte(text), 0o600))
	if strings.HasSuffix(name, ".c") {
		return []string{compiled.C(t, "../c", path)}
	}
	return python(t, path)
}

// TestRevision: a front-end is known by its name, cannot number anew, is told what was given up, and that its end was
// taken; in each language.
func TestRevision(t *testing.T) {
	const inC = `#include "ringlet.h"
int main(int argc, char **argv) {
    ringlet_ring r;
    ringlet_given_up g;
    int error = ringlet_ring_open_as(&r, argv[argc - 1], "calo", 10000);
    if (!error)
        error = ringlet_ring_put(&r, 100, "abc", 3);
    int back = ringlet_ring_put(&r, 7, "abc", 3), drop = ringlet_ring_drop(&r, 7);
    puts(back == drop ? ringlet_ring_error(back) : "put and drop differ");
    fflush(stdout);
    while (!error && (error = ringlet_ring_next_given_up(&r, &g)) == 0)
        ringlet__pause(1);
    if (error != 1)
        return 1;
    printf("%" PRIu64 " %" PRIu64 " %u: %s, %" PRIu64 "\n", g.from, g.to, g.count, ringlet_ring_reason(g.reason),
           ringlet_ring_given_up(&r));
    fflush(stdout);
    error = ringlet_ring_end(&r);
    printf("end: %s, safe %" PRIu64 "\n", ringlet_ring_error(error), ringlet_ring_safe(&r));
}`
	const inPython = `import sys, time
from ringlet import shm
r = shm.Ring(sys.argv[1], timeout=10, frontend="calo")
r.put(100, b"abc")
for step in (lambda: r.put(7, b"abc"), lambda: r.drop(7)):
    try:
        step()
    except ValueError as error:
        said = error
print(said, flush=True)
told = []
while not told:
    told = r.ranges_given_up()
    time.sleep(0.001)
g = told[0]
print("%d %d %d: %s, %d" % (g.first, g.end, g.count, g.why, r.given_up), flush=True)
r.end()
print("end: no error, safe %d" % r.safe)
`
	for language, program := range map[string][]string{
		"C":      script(t, "revised.c", inC),
		"Python": script(t, "revised.py", inPython),
	} {
		t.Run(language, func(t *testing.T) {
			f, path := openFeed(t, "")
			p := start(t, program, path)
			if said := p.line(t); !strings.Contains(said, "event numbers must grow in a ring") {
				t.Errorf("a number anew: %q", said)
			}
			drain(t, f, 1, func(_ testing.TB, g live.Fragment) {
				if g.Event != 100 {
					t.Errorf("event %d", g.Event)
				}
			})
			if who := f.(frontendFeed).Frontend(); !strings.HasPrefix(who, "calo (process ") {
				t.Errorf("the front-end is %q", who)
			}
			f.ReportGivenUp(100, 101, live.FaultLate)
			f.SetSafeBelow(101)
			if said := p.line(t); said != "100 101 1: they came too late, 1" {
				t.Errorf("given up: %q", said)
			}
			drain(t, f, 1<<62, func(testing.TB, live.Fragment) {})
			if said := p.line(t); said != "end: no error, safe 101" {
				t.Errorf("%q", said)
			}
			must.OK(t, patiently.Exit(t, p.Cmd))
		})
	}
}

// TestEndThatNobodyTakes: end has a bound, and is an error where the readout unit does not take it: no reader, a closed
// ring.
func TestEndThatNobodyTakes(t *testing.T) {
	const inC = `#include "ringlet.h"
int main(int argc, char **argv) {
    ringlet_ring r;
    if (ringlet_ring_open(&r, argv[argc - 1], 10000))
        return 1;
    r.end_timeout_ms = argc > 2 ? 60000 : 200;
    puts("open"), fflush(stdout), getchar();
    puts(ringlet_ring_error(ringlet_ring_end(&r)));
}`
	const inPython = `import sys
from ringlet import shm
r = shm.Ring(sys.argv[-1], timeout=10)
print("open", flush=True)
sys.stdin.read(1)
try:
    r.end(timeout=60 if len(sys.argv) > 2 else 0.2)
except shm.RingError as error:
    print(error)
`
	for language, program := range map[string][]string{
		"C":      script(t, "end.c", inC),
		"Python": script(t, "end.py", inPython),
	} {
		t.Run(language, func(t *testing.T) {
			_, path := openFeed(t, "")
			p := start(t, program, path) // its standard input is at its end
			p.line(t)
			if said := p.line(t); !strings.Contains(said, "has not taken the end of the run") {
				t.Errorf("nobody reads: %q", said)
			}
			f, path := openFeed(t, "")
			p = start(t, program, "long", path)
			p.line(t)
			must.OK(t, f.Close())
			if said := p.line(t); !strings.Contains(said, "has closed the ring") {
				t.Errorf("a closed ring: %q", said)
			}
		})
	}
	t.Run("Go", func(t *testing.T) {
		_, path := openFeed(t, "")
		over, cancel := context.WithCancel(within(t))
		cancel()
		r := openRing(t, path)
		if err := r.EndWithin(over); !errors.Is(err, frontend.ErrNotTaken) {
			t.Error(err)
		}
		f, path := openFeed(t, "")
		r = openRing(t, path)
		must.OK(t, f.Close())
		if err := r.End(); !errors.Is(err, frontend.ErrClosed) {
			t.Error(err)
		}
	})
}

// TestNumbersAnewInGo: as TestRevision.
func TestNumbersAnewInGo(t *testing.T) {
	f, path := openFeed(t, "")
	r, err := frontend.OpenRing(within(t), path, frontend.RingSettings{Name: "calo"})
	must.OK(t, err)
	must.OK(t, r.Put(within(t), 100, []byte("abc")))
	for range 2 {
		if err := r.Put(within(t), 100, nil); !errors.Is(err, frontend.ErrOrder) {
			t.Error(err)
		}
	}
	if err := r.Drop(99); !errors.Is(err, frontend.ErrOrder) {
		t.Error(err)
	}
	drain(t, f, 1, func(testing.TB, live.Fragment) {})
	if who := f.(frontendFeed).Frontend(); who != fmt.Sprintf("calo (process %d)", os.Getpid()) {
		t.Errorf("%q", who)
	}
	f.ReportGivenUp(100, 101, live.FaultJump)
	f.ReportGivenUp(101, 102, live.FaultJump) // the same range goes on
	f.SetSafeBelow(102)
	g, ok, err := r.NextGivenUp()
	want := frontend.GivenUp{From: 100, To: 102, Reason: 4, Fragments: 2}
	if g != want || !ok || err != nil || r.GivenUp() != 2 {
		t.Errorf("%+v, %v, %v", g, ok, err)
	}
	f.SetResumeEvent(50) // what it put in is not believed
	drained := make(chan error, 1)
	again, cancel := context.WithCancel(within(t))
	go func() {
		_, err := f.Next(again, make([]live.Fragment, 1))
		drained <- err
	}()
	must.OK(t, r.Close())
	next := openRing(t, path)
	if next.Expected() != 50 {
		t.Errorf("the next one begins at %d", next.Expected())
	}
	cancel()
	if err := patiently.Receive(t, drained, "Next still waits"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestOldFrontEndsAreHeldBack: one that cannot be told what was given up is not told that it is safe.
func TestOldFrontEndsAreHeldBack(t *testing.T) {
	for language, program := range olderProducers(t) {
		t.Run(language, func(t *testing.T) {
			f, path := openFeed(t, "?size=256KiB")
			const events, largest = 2000, 2000
			p := start(t, program(), path, fmt.Sprint(events), fmt.Sprint(largest))
			p.line(t)
			c := checker{largest: largest}
			drain(t, f, 100, c.see)
			f.ReportGivenUp(40, 41, live.FaultLate)
			f.SetSafeBelow(100)
			drain(t, f, 1<<62, c.see)
			if last := p.line(t); last != "dropped 0 safe 40" {
				t.Errorf("it said %q", last)
			}
			must.OK(t, patiently.Exit(t, p.Cmd))
			if who := f.(frontendFeed).Frontend(); who != fmt.Sprintf("process %d", p.Process.Pid) {
				t.Errorf("%q", who)
			}
		})
	}
}
