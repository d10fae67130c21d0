package frontend_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ringlet/clients/frontend"
	"ringlet/source/live"
	"ringlet/source/shmring"
	"ringlet/testkit/compiled"
	"ringlet/testkit/interpreted"
	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
)

// within is a context that ends a test which waits for what does not come.
func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patiently.LongTimeout)
	t.Cleanup(cancel)
	return ctx
}

// openFeed is a feed, and the path of its ring.
func openFeed(t testing.TB, settings string) (live.Feed, string) {
	t.Helper()
	return openFeedFor(t, settings, 0)
}

// openFeedFor is openFeed for fragments of at most the given bytes.
func openFeedFor(t testing.TB, settings string, maxFragment int) (live.Feed, string) {
	t.Helper()
	path := filepath.Join(must.MemoryDir(t), "ring")
	f, err := shmring.Open(within(t), live.FeedSettings{
		Address:     path + settings,
		Name:        "shm:ring",
		MaxFragment: maxFragment,
	})
	must.OK(t, err)
	t.Cleanup(func() { must.OK(t, f.Close()) })
	return f, path
}

// python is how a program that uses our package is started.
func python(t testing.TB, program string) []string {
	t.Helper()
	return append(interpreted.Python(t, "../python"), program)
}

// producers are the ways to start testdata's producers.
func producers(t testing.TB) map[string]func() []string {
	return map[string]func() []string{
		"C":      func() []string { return []string{compiled.C(t, "../c", "testdata/produce.c")} },
		"C++":    func() []string { return []string{compiled.CXX(t, "../c", "testdata/produce.c")} },
		"Python": func() []string { return python(t, "testdata/produce.py") },
	}
}

// olderProducers are the producers of an earlier release, 226138c3, with the clients as they were then: revision 1 of
// the ring.
func olderProducers(t testing.TB) map[string]func() []string {
	const dir = "testdata/226138c3/"
	return map[string]func() []string{
		"C of 226138c3": func() []string { return []string{compiled.C(t, dir+"c", dir+"produce.c")} },
		"Python of 226138c3": func() []string {
			return append(interpreted.Python(t, dir+"python"), dir+"produce.py")
		},
		"Go of 226138c3": func() []string {
			bin := filepath.Join(t.TempDir(), "produce")
			if out, err := exec.Command("go", "build", "-o", bin, "./"+dir+"go").CombinedOutput(); err != nil {
				t.Fatalf("%v:\n%s", err, out)
			}
			return []string{bin}
		},
	}
}

// testedProducers are all producers, and in the short form those of this release: TestOtherLanguages has the older ones
// too.
func testedProducers(t testing.TB) map[string]func() []string {
	if testing.Short() {
		return producers(t)
	}
	return allProducers(t)
}

// allProducers are the producers of this release and of an earlier one.
func allProducers(t testing.TB) map[string]func() []string {
	programs := olderProducers(t)
	maps.Copy(programs, producers(t))
	return programs
}

// process is a producer that runs.
type process struct {
	*exec.Cmd
	lines *bufio.Scanner
}

func start(t testing.TB, program []string, args ...string) *process {
	t.Helper()
	c := exec.Command(program[0], append(program[1:len(program):len(program)], args...)...)
	c.Stderr = os.Stderr
	c.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
	out, err := c.StdoutPipe()
	must.OK(t, err)
	must.OK(t, c.Start())
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = patiently.Exit(t, c)
	})
	return &process{c, bufio.NewScanner(out)}
}

func (p *process) line(t testing.TB) string {
	t.Helper()
	if !patiently.Result(t, p.lines.Scan, "the producer said nothing more") {
		t.Fatalf("the producer said nothing more: %v", p.lines.Err())
	}
	return p.lines.Text()
}

// checker looks at what produce.c and produce.py put in.
type checker struct {
	next    uint64
	largest uint64
	missing uint64
}

func (c *checker) see(t testing.TB, g live.Fragment) {
	t.Helper()
	size := 8 + g.Event*7919%(c.largest-7)
	if g.Event < c.next || g.Type != 7 || uint64(len(g.Data)) != size || binary.LittleEndian.Uint64(g.Data) != g.Event {
		t.Fatalf("event %d of %d bytes, type %d; want event %d", g.Event, len(g.Data), g.Type, c.next)
	}
	for _, b := range g.Data[8:] {
		if b != byte(g.Event) {
			t.Fatalf("event %d holds %#x", g.Event, b)
		}
	}
	c.missing += g.Event - c.next
	c.next = g.Event + 1
}

// drain reads to the end of the run, or n fragments.
func drain(t testing.TB, f live.Feed, n uint64, see func(testing.TB, live.Fragment)) uint64 {
	t.Helper()
	dst := make([]live.Fragment, 64)
	ctx := within(t)
	for got := uint64(0); ; {
		if got >= n {
			return got
		}
		k, err := f.Next(ctx, dst[:min(n-got, 64)])
		if errors.Is(err, io.EOF) {
			return got
		}
		must.OK(t, err)
		for _, g := range dst[:k] {
			see(t, g)
		}
		f.ReleaseFragments(k)
		got += uint64(k)
	}
}

func TestOtherLanguages(t *testing.T) {
	for language, program := range allProducers(t) {
		t.Run(language, func(t *testing.T) {
			f, path := openFeed(t, "?size=256KiB")
			const events, largest = 30_000, 3000
			p := start(t, program(), path, strconv.Itoa(events), strconv.Itoa(largest))
			c := checker{largest: largest}
			if n := drain(t, f, 1<<62, c.see); n != events || c.missing != 0 {
				t.Errorf("%d fragments, %d missing", n, c.missing)
			}
			if first, last := p.line(t), p.line(t); first != "0" || last != "dropped 0 safe 0" {
				t.Errorf("it said %q and %q", first, last)
			}
			must.OK(t, patiently.Exit(t, p.Cmd))
			if s := f.Stats(); s.Fragments != events || s.FrontendsAttached != 1 || s.FrontendsGone != 0 ||
				s.RefusedMessages != 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// TestLargeFragmentsInARing: rings have room for what the input declares, and clients put it in; a larger fragment is
// refused, and so is a ring of that kind by a client of a release before.
func TestLargeFragmentsInARing(t *testing.T) {
	const events, largest = 40, 3_000_000
	all := producers(t)
	all["Go"] = nil
	for language, program := range all {
		t.Run(language, func(t *testing.T) {
			f, path := openFeedFor(t, "", largest)
			done := make(chan error, 1)
			if program != nil {
				p := start(t, program(), path, strconv.Itoa(events), strconv.Itoa(largest))
				go func() { done <- patiently.Exit(t, p.Cmd) }()
			} else {
				go func() { done <- putLarge(t, path, events, largest) }()
			}
			c := checker{largest: largest}
			if n := drain(t, f, 1<<62, c.see); n != events || c.missing != 0 {
				t.Errorf("%d fragments, %d missing", n, c.missing)
			}
			must.OK(t, patiently.Receive(t, done, "the front-end has not ended"))
			if s := f.Stats(); s.Fragments != events || s.RefusedMessages != 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// putLarge is what testdata's producers do, in Go.
func putLarge(t *testing.T, path string, events, largest uint64) error {
	r, err := frontend.OpenRing(within(t), path, frontend.RingSettings{Type: 7})
	if err != nil {
		return err
	}
	if _, err := r.Reserve(within(t), int(largest)+1); !errors.Is(err, frontend.ErrTooLarge) {
		return fmt.Errorf("a fragment that is too large: %w", err)
	}
	for e := range events {
		data := bytes.Repeat([]byte{byte(e)}, int(8+e*7919%(largest-7)))
		binary.LittleEndian.PutUint64(data, e)
		if err := r.Put(within(t), e, data); err != nil {
			return err
		}
	}
	return r.End()
}

// TestOtherLanguagesDie: front-ends are killed wherever they are; each next one goes on, in whatever language, and each
// event comes once.
func TestOtherLanguagesDie(t *testing.T) {
	var programs [][]string
	for _, program := range testedProducers(t) {
		programs = append(programs, program())
	}
	f, path := openFeed(t, "?size=256KiB")
	const largest = 2000
	rounds := 14
	if testing.Short() {
		rounds = 6
	}
	c := checker{largest: largest}
	for i := range rounds {
		p := start(t, programs[i%len(programs)], path, "0", strconv.Itoa(largest))
		p.line(t) // it is attached: what the one before left could be enough to read
		drain(t, f, 1+rand.Uint64N(3000), c.see)
		must.OK(t, p.Process.Kill())
		_ = patiently.Exit(t, p.Cmd) // it was killed
	}
	p := start(t, programs[0], path, strconv.FormatUint(c.next+1000, 10), strconv.Itoa(largest))
	end := c.next + 1000
	drain(t, f, 1<<62, c.see)
	if begin, err := strconv.ParseUint(p.line(t), 10, 64); err != nil || begin > end {
		t.Errorf("the last one began at %d, %v", begin, err)
	}
	if c.missing != 0 || c.next < end {
		t.Errorf("%d missing, read up to %d of %d", c.missing, c.next, end)
	}
	if s := f.Stats(); s.FrontendsAttached != uint64(rounds+1) || s.FrontendsGone != uint64(rounds) ||
		s.Fragments != c.next {
		t.Errorf("%+v", s)
	}
}

func TestOtherLanguagesDrop(t *testing.T) {
	for language, program := range testedProducers(t) {
		t.Run(language, func(t *testing.T) {
			f, path := openFeed(t, "?size=256KiB")
			const events, largest = 2000, 2000 // 2 MB
			f.SetSafeBelow(17)                 // before the start: the front-end waits for nobody, and may be at its end at once
			p := start(t, program(), path, strconv.Itoa(events), strconv.Itoa(largest), "drop")
			p.line(t)
			last := p.line(t) // nobody has read yet
			c := checker{largest: largest}
			n := drain(t, f, 1<<62, c.see)
			if last == "all put" { // and the end was to be taken
				last = p.line(t)
			}
			must.OK(t, patiently.Exit(t, p.Cmd))
			s := f.Stats()
			if s.DroppedByFrontend == 0 || n+s.DroppedByFrontend != events ||
				last != "dropped "+strconv.FormatUint(s.DroppedByFrontend, 10)+" safe 17" {
				t.Errorf("%d fragments, %+v, it said %q", n, s, last)
			}
		})
	}
}

// TestOtherLanguagesAreRefused: an open that cannot be says why, in the same words.
func TestOtherLanguagesAreRefused(t *testing.T) {
	const inC = `#include "ringlet.h"
int main(int argc, char **argv) {
    ringlet_ring r;
    puts(ringlet_ring_error(ringlet_ring_open(&r, argv[argc - 1], 0)));
}`
	const inPython = `import sys
from ringlet import shm
try:
    shm.Ring(sys.argv[1], timeout=0)
except shm.RingError as error:
    print(error)
`
	file := func(name, text string) string {
		path := filepath.Join(t.TempDir(), name)
		must.OK(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	for language, program := range map[string]func(t *testing.T) []string{
		"C":      func(t *testing.T) []string { return []string{compiled.C(t, "../c", file("open.c", inC))} },
		"Python": func(t *testing.T) []string { return python(t, file("open.py", inPython)) },
	} {
		t.Run(language, func(t *testing.T) {
			program := program(t)
			f, path := openFeed(t, "")
			if said := start(t, program, path+"-none").line(t); !strings.Contains(said, "no readout unit has made the ring") {
				t.Errorf("without a ring: %q", said)
			}
			first := openRing(t, path)
			if said := start(t, program, path).line(t); !strings.Contains(said, "another front-end fills the ring") {
				t.Errorf("with another front-end: %q", said)
			}
			drain := make(chan struct{})
			go func() {
				defer close(drain)
				_, _ = f.Next(within(t), make([]live.Fragment, 1)) // to the end
			}()
			must.OK(t, first.End())
			patiently.Receive(t, drain)
			if said := start(t, program, path).line(t); !strings.Contains(said, "next run has a new") {
				t.Errorf("after the end: %q", said)
			}
			must.OK(t, os.WriteFile(path+"-text", []byte("no card"), 0o600))
			if said := start(t, program, path+"-text").line(t); !strings.Contains(said, "is not the ring of a process") {
				t.Errorf("a text: %q", said)
			}
		})
	}
}

// TestExamples: the programs in docs/clients.md do what that page says.
func TestExamples(t *testing.T) {
	page, err := os.ReadFile("../../docs/clients.md")
	must.OK(t, err)
	section, _, _ := strings.Cut(string(page), "What happens when")
	blocks := regexp.MustCompile("(?ms)^```(c|python|go)\n(.*?)^```").FindAllStringSubmatch(section, -1)
	seen := map[string]bool{}
	for _, b := range blocks {
		language, text := b[1], b[2]
		if !strings.Contains(strings.ToLower(text), "ring(") && !strings.Contains(text, "ring_open") {
			continue // of another carrier
		}
		seen[language] = true
		t.Run(language, func(t *testing.T) {
			if n := strings.Count(text, "\n"); n > 20 {
				t.Errorf("%d lines", n)
			}
			f, path := openFeed(t, "?size=256KiB")
			const events = 1000
			p := start(t, example(t, language, text), path, strconv.Itoa(events))
			next := uint64(0)
			drain(t, f, 1<<62, func(t testing.TB, g live.Fragment) {
				if g.Event != next || len(g.Data) != 1000 || g.Type != 51 {
					t.Fatalf("event %d of %d bytes, want event %d", g.Event, len(g.Data), next)
				}
				next++
			})
			must.OK(t, patiently.Exit(t, p.Cmd))
			if next != events {
				t.Errorf("%d events", next)
			}
		})
	}
	if len(seen) != 3 {
		t.Errorf("examples in %v", seen)
	}
}

// example is how a program of the page is started.
func example(t *testing.T, language, text string) []string {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, map[string]string{"c": "producer.c", "python": "producer.py", "go": "main.go"}[language])
	must.OK(t, os.WriteFile(file, []byte(text), 0o600))
	switch language {
	case "c":
		return []string{compiled.C(t, "../c", file)}
	case "python":
		return python(t, file)
	}
	bin := filepath.Join(dir, "producer")
	if out, err := exec.Command("go", "build", "-o", bin, file).CombinedOutput(); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	return []string{bin}
}

func openRing(t testing.TB, path string) *frontend.Ring {
	t.Helper()
	r, err := frontend.OpenRing(within(t), path, frontend.RingSettings{})
	must.OK(t, err)
	t.Cleanup(func() { must.OK(t, r.Close()) })
	return r
}

// TestErrorsSayWhere: the step, the ring, the reason.
func TestErrorsSayWhere(t *testing.T) {
	_, path := openFeed(t, "")
	r := openRing(t, path)
	_, err := r.Reserve(within(t), 1<<16)
	var failed *frontend.RingError
	if !errors.As(err, &failed) || failed.Step != "reserve" || failed.Ring != path ||
		!errors.Is(err, frontend.ErrTooLarge) {
		t.Errorf("%v", err)
	}
	if err := r.Commit(1, 1); !errors.As(err, &failed) || failed.Step != "commit" {
		t.Errorf("%v", err)
	}
	if place, err := r.Reserve(within(t), 5); err != nil || len(place) != 5 {
		t.Errorf("%d, %v", len(place), err)
	}
	r.Cancel()
	must.OK(t, r.Put(within(t), 1, []byte("12345")))
}
