package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// wanted skips a test that nobody asked for, and one that needs root without it.
func wanted(t *testing.T, name string) {
	t.Helper()
	if os.Getenv("RINGLET_E2E") != name {
		t.Skipf("SKIPPED: make e2e-%s runs it", name)
	}
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: it needs root")
	}
}

// needs skips a test where a program is missing.
func needs(t *testing.T, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("SKIPPED: %v", err)
		}
	}
}

// repository is the path of a file of this repository.
func repository(t *testing.T, file string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("../..", file))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// limit of one command of any kind; what takes longer hangs.
const limit = 4 * time.Minute

// output runs a command, which dies with this process.
func output(env []string, stdin []byte, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if stdin != nil {
		cmd.Stdin = bytes.NewReader(stdin)
	}
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s %s: %w\n%s%s", name, strings.Join(args, " "), err, &out, &complaints)
	}
	return out.String(), nil
}

// must runs a command that has to succeed.
func must(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := output(nil, nil, name, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A crew gives commands with `ringlet ctl`.
type crew struct {
	command []string // ringlet ctl and who asks whom, with whatever enters a network before it
}

// exitUnreachable is how ringlet ctl ends where no control answers: docs/ctl.md.
const exitUnreachable = 6

// try gives commands; where no control answers it tries again for a minute, since a control may be coming back.
func (c crew) try(words ...string) (string, error) {
	for began := time.Now(); ; time.Sleep(300 * time.Millisecond) {
		out, err := output(nil, nil, c.command[0], append(c.command[1:len(c.command):len(c.command)], words...)...)
		var ended *exec.ExitError
		if errors.As(err, &ended) && ended.ExitCode() == exitUnreachable && time.Since(began) < time.Minute {
			continue
		}
		return out, err
	}
}

func (c crew) must(t *testing.T, words ...string) string {
	t.Helper()
	out, err := c.try(words...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// component is one of the status tree.
type component struct {
	Name, Kind, State string
	InError, Degraded bool
	Included          bool
	Cause             cause
	Children          []component
}

// missing are the nodes, and units of them, that take no part in the run.
func (c component) missing() (out []string) {
	for _, n := range c.Children {
		if n.Kind != "node" {
			continue
		}
		if !n.Included || n.InError || n.State != "Running" {
			out = append(out, n.Name)
		}
		for _, unit := range n.Children {
			if !unit.Included {
				out = append(out, unit.Name+" of "+n.Name)
			}
		}
	}
	return out
}

type cause struct{ Component, What, Evidence, Code string }

// record is a run's.
type record struct {
	Number       int
	Verdict, End string
	VerdictWhy   string
	EventsBuilt  string
	ReportJSON   string
	GoodputGbps  float64
	Cause        cause
	Accounts     []struct {
		Name        string
		Left, Right string
		OK          bool
	}
}

// query runs a command, and reads its answer in JSON.
func (c crew) query(t *testing.T, into any, words ...string) {
	t.Helper()
	out := c.must(t, append([]string{"--json"}, words...)...)
	if err := json.Unmarshal([]byte(out), into); err != nil {
		t.Fatalf("%v: %v: %s", words, err, out)
	}
}

func (c crew) status(t *testing.T) component {
	t.Helper()
	var s struct{ Root component }
	c.query(t, &s, "status")
	return s.Root
}

// record of the newest run, or of one by number.
func (c crew) record(t *testing.T, number int) record {
	t.Helper()
	words := []string{"show-run"}
	if number > 0 {
		words = append(words, strconv.Itoa(number))
	}
	var r record
	c.query(t, &r, words...)
	return r
}

// way leads from a state to where load is allowed.
var way = map[string][]string{
	"Running": {"stop", "reset", "unload"}, "Paused": {"stop", "reset", "unload"}, "Ready": {"reset", "unload"},
	"NotReady": {"unload"}, "Error": {"recover", "unload"},
}

// begin starts a run with settings, from wherever the partition is, and returns its number. Nodes that were lost come
// back in their own time, and load refuses until they have: then it tries again.
func (c crew) begin(t *testing.T, settings ...string) int {
	t.Helper()
	for began := time.Now(); ; time.Sleep(time.Second) {
		words := append(slices.Clone(way[c.status(t).State]), "load")
		_, err := c.try(append(append(words, settings...), "configure", "start")...)
		if err == nil {
			break
		}
		if time.Since(began) > 2*time.Minute {
			t.Fatal(err)
		}
		t.Log(err)
	}
	var s struct{ Run int }
	c.query(t, &s, "status")
	return s.Run
}

// ended waits until a run has its verdict, and says how long that took.
func (c crew) ended(t *testing.T, number int, most time.Duration) (record, time.Duration) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(200 * time.Millisecond) {
		r := c.record(t, number)
		if r.Verdict != "" && r.Verdict != "VERDICT_UNSPECIFIED" {
			return r, time.Since(began)
		}
		if time.Since(began) > most {
			t.Fatalf("run %d has no verdict after %v; the partition is %+v", number, most, c.status(t))
		}
	}
}

// good holds that a run came out well.
func (r record) good(t *testing.T) {
	t.Helper()
	if r.Verdict != "VERDICT_GOOD" || len(r.Accounts) == 0 {
		t.Errorf("run %d: %s, %s: %+v; accounts %+v", r.Number, r.Verdict, r.End, r.Cause, r.Accounts)
	}
	r.balanced(t)
}

func (r record) balanced(t *testing.T) {
	t.Helper()
	for _, a := range r.Accounts {
		if !a.OK {
			t.Errorf("run %d: %s: %s is not %s", r.Number, a.Name, a.Left, a.Right)
		}
	}
}

// figures are what a test measured.
type figures struct{ rows [][2]string }

func (f *figures) add(name, format string, args ...any) {
	f.rows = append(f.rows, [2]string{name, fmt.Sprintf(format, args...)})
}

// took adds a time.
func (f *figures) took(name string, d time.Duration) { f.add(name, "%.1f s", d.Seconds()) }

// print prints them as a table for a document.
func (f *figures) print() {
	fmt.Println("\n| what | figure |\n|---|---|")
	for _, r := range f.rows {
		fmt.Printf("| %s | %s |\n", r[0], r[1])
	}
	fmt.Println()
}

// eventually waits until something holds.
func eventually(t *testing.T, most time.Duration, what string, holds func() bool) time.Duration {
	t.Helper()
	for began := time.Now(); ; time.Sleep(200 * time.Millisecond) {
		if holds() {
			return time.Since(began)
		}
		if time.Since(began) > most {
			t.Fatalf("after %v still not so: %s", most, what)
		}
	}
}
