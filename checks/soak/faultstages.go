package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// A faultStage is where the runs of rows are made.
type faultStage interface {
	// begin starts the run of a case; it may return before the first event is built.
	begin(ctx context.Context, c faultCase) error
	// inflict begins what happens to a victim, and relent ends it where it lasts.
	inflict(what happening, victim string) error
	relent(what happening, victim string) error
	// isOver says that the run has ended by itself.
	isOver(ctx context.Context) bool
	// finish ends the run and returns its report, as JSON.
	finish(ctx context.Context) (report string, err error)
	outputs() []string  // directories that have the run's directory
	runNumber() uint32  // of the run
	controlLog() string // file in which the control says what happens
	reader() *cluster   // reads files
	// close ends all processes; an error says what was left.
	close() error
}

// A runStage makes the runs of rows by `ringlet run`.
type runStage struct {
	c    *cluster // without processes: it reads files
	host *host
	p    *process
	over <-chan struct{}
	pids map[string]int // of the victims when they were struck
}

func newRunStage(env env, exe, dir string) (*runStage, error) {
	host, err := newHost("run", "127.0.0.1", nil, nil)
	return &runStage{c: &cluster{env: env, exe: exe, dir: dir}, host: host}, err
}

func (s *runStage) begin(_ context.Context, c faultCase) error {
	if err := os.RemoveAll(s.c.dir); err != nil {
		return err
	}
	if err := os.MkdirAll(s.c.dir, 0o755); err != nil {
		return err
	}
	args := []string{"run", "--json", "--output", "mep:" + s.c.path("out") + "/"}
	for _, set := range c.settings() {
		args = append(args, "--"+set)
	}
	s.p = &process{
		name:      "ringlet run",
		args:      args,
		host:      s.host,
		log:       s.controlLog(),
		dir:       s.c.dir,
		exe:       s.c.exe,
		report:    func(string) {}, // the report of the run says it
		noRestart: true,
	}
	s.pids = map[string]int{}
	err := s.p.start()
	s.over = s.p.exited()
	return err
}

func (s *runStage) outputs() []string  { return []string{s.c.path("out")} }
func (s *runStage) runNumber() uint32  { return 1 }
func (s *runStage) controlLog() string { return s.c.path("log") }
func (s *runStage) reader() *cluster   { return s.c }

func (s *runStage) inflict(what happening, victim string) error {
	pid, err := childNamed(s.p.pid(), victim)
	if err != nil {
		return err
	}
	s.pids[victim] = pid
	switch what {
	case happenKill:
		return syscall.Kill(pid, syscall.SIGKILL)
	case happenStop1, happenStop10:
		return syscall.Kill(pid, syscall.SIGSTOP)
	case happenTerm:
		return syscall.Kill(pid, syscall.SIGTERM)
	}
	return fmt.Errorf("ringlet run has no %q", what)
}

func (s *runStage) relent(_ happening, victim string) error {
	if err := syscall.Kill(s.pids[victim], syscall.SIGCONT); !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil // it was ended as lost, or the run is over
}

func (s *runStage) isOver(context.Context) bool {
	select {
	case <-s.over:
		return true
	default:
		return false
	}
}

func (s *runStage) finish(ctx context.Context) (string, error) {
	_ = s.p.signal(syscall.SIGINT, true) // it may have ended
	select {
	case <-s.over:
	case <-ctx.Done():
		return "", ctx.Err()
	case <-time.After(endTimeout):
		return "", &hangError{What: "ringlet run ended", Bound: endTimeout}
	}
	text, err := os.ReadFile(s.controlLog())
	if err != nil {
		return "", err
	}
	at := bytes.Index(text, []byte("\n{"))
	if at < 0 {
		return "", errors.New("ringlet run printed no report")
	}
	var report json.RawMessage
	err = json.NewDecoder(bytes.NewReader(text[at:])).Decode(&report)
	return string(report), err
}

func (s *runStage) close() error {
	if s.p != nil {
		s.p.kill()
	}
	s.host.close()
	return nil
}

// childNamed is the process id of a node that a process has started.
func childNamed(parent int, node string) (int, error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", parent))
	if err != nil {
		return 0, err
	}
	for _, file := range threads {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		for _, child := range strings.Fields(string(text)) {
			line, err := os.ReadFile(filepath.Join("/proc", child, "cmdline"))
			if err == nil && bytes.Contains(line, []byte("\x00--name\x00"+node+"\x00")) {
				return strconv.Atoi(child)
			}
		}
	}
	return 0, fmt.Errorf("%s: %w", node, errNotThere)
}

// A hostsStage makes the runs of rows by a control and nodes, each on a host of its own. They stay for several rows.
type hostsStage struct {
	c      *cluster
	place  outputPlace
	number uint32
	gone   []*process // told to end, and not started again
}

func (s *hostsStage) begin(ctx context.Context, c faultCase) error {
	s.place = sharedFiles
	if c.What == happenDiskFull {
		s.place = smallDiskFiles
	}
	before, err := s.c.operator.newestRun(ctx)
	if err != nil {
		return err
	}
	s.number = before + 1
	if err := s.c.prepare(ctx, plannedRun{Settings: c.settings(), Place: s.place}, &trial{}); err != nil {
		return err
	}
	return s.c.operator.command(ctx, "start", map[string]string{"remark": c.faultRow.String()})
}

func (s *hostsStage) outputs() []string  { return s.c.outputDirs(s.place) }
func (s *hostsStage) runNumber() uint32  { return s.number }
func (s *hostsStage) controlLog() string { return s.c.path("logs", controlName+".log") }
func (s *hostsStage) reader() *cluster   { return s.c }

func (s *hostsStage) inflict(what happening, victim string) error {
	p := s.c.processByName[victim]
	switch what {
	case happenKill:
		return p.signal(syscall.SIGKILL, true)
	case happenStop1, happenStop10:
		return p.signal(syscall.SIGSTOP, false)
	case happenRestart:
		return p.signal(syscall.SIGTERM, true)
	case happenTerm:
		p.setRestart(false)
		s.gone = append(s.gone, p)
		return p.signal(syscall.SIGTERM, true)
	case happenDiskFull:
		return s.c.injector.fill(victim)
	}
	return s.c.bed.SetCable(victim, false)
}

func (s *hostsStage) relent(what happening, victim string) error {
	switch what {
	case happenStop1, happenStop10:
		s.c.processByName[victim].resume()
	case happenDiskFull:
		return s.c.injector.freeDisks()
	case happenCut, happenCutSoon:
		return s.c.bed.SetCable(victim, true)
	}
	return nil
}

func (s *hostsStage) isOver(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	state, _, err := s.c.operator.partition(ctx)
	return err == nil && state != "Running"
}

// finish stops the run, starts what was told to end, and waits for the record with the files of all nodes.
func (s *hostsStage) finish(ctx context.Context) (string, error) {
	isControl := func(p *process) bool { return p.name == controlName } // nobody else stops the run
	if err := s.startGone(isControl); err != nil {
		return "", err
	}
	if err := s.c.operator.bringOffline(ctx); err != nil {
		return "", err
	}
	if err := s.startGone(func(*process) bool { return true }); err != nil {
		return "", err
	}
	if err := s.c.heal(ctx); err != nil {
		return "", err
	}
	if err := s.c.operator.awaitJoined(ctx, names(0, nodeCount)); err != nil {
		return "", err
	}
	run, err := s.c.operator.awaitRecord(ctx, s.number)
	if err != nil {
		return "", err
	}
	return completeReport(run), nil
}

// startGone starts processes that were told to end, if they are chosen.
func (s *hostsStage) startGone(chosen func(*process) bool) (err error) {
	s.gone = slices.DeleteFunc(s.gone, func(p *process) bool {
		if chosen(p) {
			<-p.exited()
			p.setRestart(true)
			err = errors.Join(err, p.start())
		}
		return chosen(p)
	})
	return err
}

// completeReport is the report of a record, with the end as the record has it.
func completeReport(run *ecsv1.Run) string {
	var fields map[string]any
	if json.Unmarshal([]byte(run.GetReportJson()), &fields) != nil {
		fields = map[string]any{}
	}
	fields["verdict"], fields["end_cause"] = verdict(run), run.GetEnd()
	text, _ := json.Marshal(fields) // they were read from JSON
	return string(text)
}

func (s *hostsStage) close() error {
	problems := s.c.close()
	s.c.abandon()
	if len(problems) > 0 {
		return errors.New(strings.Join(problems, "; "))
	}
	return nil
}
