package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"ringlet/internal/netns"
	"ringlet/lab/testbed"
	"ringlet/testkit/interpreted"
	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
)

// The test binary is the program where it is called ringlet: scripts and the nodes that a run spawns get it from the
// PATH.
func TestMain(m *testing.M) {
	programs := map[string]func(){"ringlet": main, "frontend": runFrontend, "stuck": runStuck}
	if programs[filepath.Base(os.Args[0])] != nil {
		endWithTests()
	} else {
		must.LimitParallel(8, 4)
	}
	testDelays.idle, testDelays.atLeast = patiently.Scaled(15*time.Second), patiently.LongTimeout // no test waits for them
	testscript.Main(m, programs)
}

// endWithTests has a program that the tests have started end with them, also where they are killed: each of its runs
// takes minutes. What a run or a shell has started has another parent. It looks at its parent, since the signal of the
// kernel comes when the thread that started it ends, too.
func endWithTests() {
	parent := os.Getppid()
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", parent))
	if err != nil || !strings.HasSuffix(strings.TrimSuffix(exe, " (deleted)"), ".test") {
		return
	}
	go func() {
		for os.Getppid() == parent {
			time.Sleep(time.Second)
		}
		_ = unix.Kill(os.Getpid(), unix.SIGKILL)
	}()
}

// TestScripts plays testdata/script: sessions as a user has them. What they may use beside testscript's own commands:
//
//	frontend EVENTS RATE SIZE [LEFT-OUT [ADDRESS FILE]]  is a front-end, for the input exec: or at an address
//	stuck PATH EVENTS            is a front-end that is killed while there is no room for what it sends
//	once SOURCES EVENTS FILE...  MEP files have each source's fragment of each event once
//	ends CODE ARGS...           runs ringlet, which must end with that code
//	holds FILE NAME=VALUE...    a JSON object has these values; >, >= and < compare numbers
//	damage IN OUT HOW RECORD    damages one record of an MDF file
//	record DIR FORMAT SETTING...  records a run of the run number in $RUN, without processes
//	flip FILE OFFSET            changes a byte; an offset below 0 counts from the end
//	await FILE [PATTERN]        a file is there, in which the pattern matches: waits for it
//	nothingleft                 no process, shared memory or temporary file of this session is left
//
// [python] is whether there is a python3, which is the interpreter itself (testkit/interpreted says why).
//
// Each session has a run number of its own in $RUN, which names its shared memory, and the recorded sample, if it is
// there, in $SAMPLE. The clients for other languages are in $CLIENTS, the examples in $EXAMPLES.
func TestScripts(t *testing.T) {
	t.Parallel()
	sample := sampleFile(t)
	root, err := filepath.Abs("../..")
	must.OK(t, err)
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("CLIENTS", filepath.Join(root, "clients"))
			env.Setenv("EXAMPLES", filepath.Join(root, "examples"))
			env.Setenv("RUN", strconv.Itoa(int(newRunNumber())))
			env.Setenv("SAMPLE", sample)
			env.Setenv("GORACE", raceAtOnce)
			if python, err := interpreted.FindPython(); err == nil { // behind the directory of the programs below
				programs, rest, _ := strings.Cut(env.Getenv("PATH"), ":")
				env.Setenv("PATH", programs+":"+filepath.Dir(python)+":"+rest)
			}
			return nil
		},
		Condition: func(name string) (bool, error) {
			switch name {
			case "sample":
				return sample != "", nil
			case "python":
				_, err := interpreted.FindPython()
				return err == nil, nil
			case "testbed":
				return errors.Join(testbed.CheckPossible(), netns.CheckSupported()) == nil, nil
			}
			return false, fmt.Errorf("there is no condition %q", name)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"ends": cmdEnds, "holds": cmdHolds, "damage": cmdDamage, "nothingleft": cmdNothingLeft,
			"record": cmdRecord, "flip": cmdFlip, "once": cmdOnce, "await": cmdAwait,
		},
	})
}

// unlessShort skips a test that takes long, or waits for time-outs of the program, where tests shall be short. Scripts
// say so themselves.
func unlessShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("SKIPPED: tests shall be short")
	}
}

// raceAtOnce lets processes with the race detector end without the second that they sleep by default.
const raceAtOnce = "atexit_sleep_ms=0"

// newRunNumber returns one that no other test running on this machine has.
func newRunNumber() uint32 { return 1<<31 | rand.Uint32() }

// sampleFile is the recorded sample, or "" where it is absent.
func sampleFile(t *testing.T) string {
	t.Helper()
	file := os.Getenv("RINGLET_MDF_SAMPLE")
	if file == "" {
		file = "../../../shared/data/minbias-10.mdf"
	}
	file, err := filepath.Abs(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Logf("the recorded sample is not there, its sessions are skipped: %v", err)
		return ""
	}
	return file
}

func cmdEnds(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: ends CODE ARGS...")
	}
	command := args[1:]
	if command[0] == "run" && hasLargeSlots(command) {
		// Nothing of it depends on how many slots there are, and to make and clear those of the default is a quarter of
		// what a small run costs.
		command = slices.Insert(slices.Clone(command), 1, "--slots", "4")
	}
	err := ts.Exec("ringlet", command...)
	code := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("ended with code %d, not %s\n%s%s", code, args[0], ts.ReadFile("stdout"), ts.ReadFile("stderr"))
	}
}

// hasLargeSlots says whether a run has slots for many events each, and the default number of them. Small ones cost
// nothing, and with few of those many MEPs wait for each other.
func hasLargeSlots(command []string) bool {
	before := ""
	for _, arg := range command {
		if events, err := strconv.Atoi(arg); before == "--packing" && (err != nil || events < 200) {
			return false
		}
		switch before = arg; arg {
		case "--config", "--slots", "--slot-size", "--node-memory":
			return false
		}
	}
	return true
}

func cmdHolds(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: holds FILE NAME=VALUE...")
	}
	var object map[string]any
	if err := json.Unmarshal([]byte(ts.ReadFile(args[0])), &object); err != nil {
		ts.Fatalf("%s: %v", args[0], err)
	}
	for _, want := range args[1:] {
		if why := compare(object, want); why != "" {
			ts.Fatalf("%s: %s", want, why)
		}
	}
}

// compare says what is wrong with NAME=VALUE, or nothing.
func compare(object map[string]any, want string) string {
	at := strings.IndexAny(want, "=<>")
	if at < 0 {
		return "no comparison"
	}
	name, op := want[:at], want[at:at+1]
	value := want[at+1:]
	if op == ">" && strings.HasPrefix(value, "=") {
		op, value = ">=", value[1:]
	}
	var got any = object
	for key := range strings.SplitSeq(name, ".") {
		inner, _ := got.(map[string]any)
		got = inner[key]
	}
	number, isNumber := got.(float64)
	bound, err := strconv.ParseFloat(value, 64)
	switch {
	case got == nil:
		return "there is no such field"
	case !isNumber || err != nil:
		if op == "=" && fmt.Sprint(got) == value {
			return ""
		}
	case op == "=" && number == bound, op == ">" && number > bound, op == ">=" && number >= bound, op == "<" &&
		number < bound:
		return ""
	}
	return fmt.Sprintf("it is %v", got)
}

func cmdDamage(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 4 {
		ts.Fatalf("usage: damage IN OUT truncate|magic|sizes|checksum|zero RECORD")
	}
	record, err := strconv.Atoi(args[3])
	ts.Check(err)
	out, err := damage([]byte(ts.ReadFile(args[0])), args[2], record)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), out, 0o666))
}

func cmdAwait(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: await FILE [PATTERN]")
	}
	pattern, err := regexp.Compile(strings.Join(args[1:], ""))
	ts.Check(err)
	for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		b, err := os.ReadFile(ts.MkAbs(args[0]))
		if err == nil && pattern.Match(b) {
			return
		}
		if time.Since(begun) > patiently.LongTimeout {
			ts.Fatalf("waited in vain: %v\n%s", err, b)
		}
	}
}

func cmdNothingLeft(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: nothingleft")
	}
	if remaining := leftovers(ts.Getenv("RUN"), ts.Getenv("WORK")); remaining != "" {
		ts.Fatalf("%s", remaining)
	}
}

// leftovers says what a run left on this machine: shared memory by the run's number, processes and hidden files by its
// directory.
func leftovers(run, dir string) string {
	var out []string
	if segments, _ := filepath.Glob("/dev/shm/ringlet-" + run + "-*"); len(segments) > 0 {
		out = append(out, fmt.Sprint("shared memory ", segments))
	}
	for _, p := range processes(dir) {
		out = append(out, "process "+p.line)
	}
	_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(d.Name(), ".") && d.Type().IsRegular() ||
			strings.HasPrefix(filepath.Base(path), "ringlet-run-") {
			out = append(out, "file "+path)
		}
		return nil
	})
	return strings.Join(out, "\n")
}

// process is one that carries the test's directory in its environment.
type process struct {
	pid  int
	line string
}

// processes lists the nodes and runs that work for the test whose directory is dir.
func processes(dir string) []process {
	var out []process
	found, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range found {
		env, err := os.ReadFile(p + "/environ")
		if err != nil || !bytes.Contains(env, []byte("\x00WORK="+dir+"\x00")) &&
			!bytes.HasPrefix(env, []byte("WORK="+dir+"\x00")) {
			continue
		}
		line, _ := os.ReadFile(p + "/cmdline")
		if len(line) == 0 {
			continue // it has ended, and its parent has not looked yet
		}
		pid, _ := strconv.Atoi(filepath.Base(p))
		out = append(out, process{pid, strings.ReplaceAll(strings.TrimSuffix(string(line), "\x00"), "\x00", " ")})
	}
	return out
}

// eventually waits for something that must come, however busy the machine is.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patiently.LongTimeout); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}
