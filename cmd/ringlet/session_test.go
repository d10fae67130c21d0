package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"ringlet/recording"
	"ringlet/testkit/logged"
	"ringlet/testkit/patiently"
)

// session is a directory of its own, which every process started in it carries in its environment.
type session struct {
	t   *testing.T
	dir string
	run string // its run number
}

func newSession(t *testing.T) *session {
	t.Helper()
	s := &session{t, t.TempDir(), strconv.Itoa(int(newRunNumber()))}
	t.Cleanup(func() {
		for _, p := range processes(s.dir) {
			t.Errorf("left behind: %s", p.line)
			_ = syscall.Kill(p.pid, syscall.SIGKILL)
		}
	})
	return s
}

// program is a ringlet under way.
type program struct {
	*session
	cmd      *exec.Cmd
	out, err logged.Buffer
	ended    chan struct{}
}

// start starts ringlet in the session's directory.
func (s *session) start(args ...string) *program {
	s.t.Helper()
	return s.startCommand("ringlet", args...)
}

func (s *session) startCommand(name string, args ...string) *program {
	s.t.Helper()
	p := &program{session: s, cmd: exec.Command(name, args...), ended: make(chan struct{})}
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = s.dir, &p.out, &p.err
	p.cmd.Env = append(os.Environ(), "WORK="+s.dir, "TMPDIR="+s.dir, "GORACE="+raceAtOnce)
	if err := p.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // the state tells how
		close(p.ended)
	}()
	s.t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		patiently.Receive(s.t, p.ended)
		if s.t.Failed() {
			out, _, _ := strings.Cut(p.out.String(), `"counters"`)
			s.t.Logf("%v: %v\nstdout:\n%s\nstderr:\n%s", p.cmd.Args, p.cmd.ProcessState, out, p.err.String())
		}
	})
	return p
}

// startRun starts a run with output that lasts until it is disturbed, and waits until builder units write.
func (s *session) startRun(output string, args ...string) *program {
	s.t.Helper()
	p := s.start(append([]string{
		"run", "--json", "--run-number", s.run, "--duration", "10m", "--output", output, "--rate", "20000", "--packing",
		"400",
	}, args...)...)
	eventually(s.t, "the run builds", func() bool {
		select {
		case <-p.ended:
			s.t.Fatalf("the run ended before it was disturbed: %s", p.err.String())
		default:
		}
		written := false
		_ = filepath.WalkDir(s.dir, func(_ string, d os.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(d.Name(), ".idx") { // with the entry of a MEP that is there
				info, err := d.Info()
				written = written || err == nil && info.Size() > recording.HeaderBytes
			}
			return nil
		})
		return written
	})
	return p
}

// node is the process of that name.
func (s *session) node(name string) int {
	s.t.Helper()
	for _, p := range processes(s.dir) {
		if strings.Contains(p.line+" ", " node --name "+name+" ") {
			return p.pid
		}
	}
	s.t.Fatalf("there is no node %s", name)
	return 0
}

func (s *session) signal(pid int, sig syscall.Signal) {
	s.t.Helper()
	if err := syscall.Kill(pid, sig); err != nil {
		s.t.Fatal(err)
	}
}

// ends waits for the end and checks the exit code.
func (p *program) ends(code int) {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(2 * patiently.LongTimeout):
		p.t.Fatal("it does not end")
	}
	if got := p.cmd.ProcessState.ExitCode(); got != code {
		p.t.Errorf("ended with %v, not with code %d", p.cmd.ProcessState, code)
	}
}

// report is the object on standard output.
func (p *program) report() map[string]any {
	p.t.Helper()
	var object map[string]any
	_, report, _ := strings.Cut(p.out.String(), "{") // after where its page is, if it has one
	if err := json.Unmarshal([]byte("{"+report), &object); err != nil {
		p.t.Fatalf("no report: %v", err)
	}
	return object
}

// holds checks fields of the report.
func (p *program) holds(wants ...string) {
	p.t.Helper()
	object := p.report()
	for _, want := range wants {
		if why := compare(object, want); why != "" {
			p.t.Errorf("%s: %s", want, why)
		}
	}
}

// checkStderr checks that standard error has the text.
func (p *program) checkStderr(text string) {
	p.t.Helper()
	if !strings.Contains(p.err.String(), text) {
		p.t.Errorf("standard error says nothing of %q", text)
	}
}

// nothingLeft checks that nothing of the session is left but the files named.
func (s *session) nothingLeft(files ...string) {
	s.t.Helper()
	eventually(s.t, "its processes end", func() bool { return len(processes(s.dir)) == 0 })
	if remaining := leftovers(s.run, s.dir); remaining != "" {
		s.t.Errorf("left behind: %s", remaining)
	}
	var there []string
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, e := range entries {
		there = append(there, e.Name())
	}
	if strings.Join(there, " ") != strings.Join(files, " ") {
		s.t.Errorf("the directory holds %v, not %v", there, files)
	}
}

// merged are the files that a single output file comes with.
func merged(output string) []string { return []string{output, output + ".idx", output + ".json"} }

// keptTails takes away what stays of the segments of a merged file: bytes of a MEP that a killed process was writing.
func (s *session) keptTails(output string) {
	s.t.Helper()
	dir := filepath.Join(s.dir, output+".segments")
	if tails, _ := filepath.Glob(filepath.Join(dir, "*", "*.tail")); len(tails) == 0 {
		return
	}
	if err := os.RemoveAll(dir); err != nil {
		s.t.Fatal(err)
	}
}

// found holds that a reader finds everything in an output that the report says was built.
func (p *program) found(output string) {
	p.t.Helper()
	r := p.report()
	if there, built := r["output_events"], r["events_built"]; there == nil || there.(float64) < built.(float64) ||
		built == 0. {
		p.t.Errorf("%v events built, %v in the output", built, there)
	}
	v := p.start("verify", output)
	v.ends(0)
	if p.t.Failed() {
		p.t.Log(v.out.String(), v.err.String())
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, text, 0o600); err != nil {
		t.Fatal(err)
	}
}
