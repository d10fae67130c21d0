package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// A soak makes one run of the plan after the other.
type soak struct {
	flags flags
	env   env
	exe   string
	dir   *workDir
	tally *tally

	c            *cluster // nil between two clusters
	clusterCount int
	mu           sync.Mutex
	problems     []string // unexpected ends of processes
}

// runAll is the whole soak. An error says why it could not continue; failures of the program are in the tally.
func (s *soak) runAll(ctx context.Context) error {
	end := time.Now().Add(s.flags.duration)
	i := s.flags.firstRun
	for ; time.Now().Before(end) && ctx.Err() == nil; i++ {
		if n := s.flags.maxRuns; n > 0 && i >= s.flags.firstRun+n || len(s.tally.Failures) >= s.flags.maxFailures ||
			s.env.Chain && s.tally.Order.Seen >= s.flags.chainDecisions {
			break
		}
		if err := s.runOne(ctx, i); err != nil {
			return s.abort(err)
		}
	}
	// The last run has no fault: after the faults the cluster must work again.
	for ; i%faultlessEvery != 0; i++ {
	}
	if ctx.Err() != nil {
		return s.abort(ctx.Err())
	}
	if err := s.runOne(ctx, i); err != nil {
		return s.abort(err)
	}
	return s.finish()
}

// abort kills the cluster.
func (s *soak) abort(err error) error {
	if s.c != nil {
		s.countStarts()
		s.c.abandon()
		s.c = nil
	}
	return err
}

// runOne is one run of the plan.
func (s *soak) runOne(ctx context.Context, i int) error {
	if err := s.ensureCluster(ctx); err != nil {
		return err
	}
	plan := planRun(s.flags.seed, i, s.env)
	trial := s.c.drive(ctx, plan)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	s.tally.add(&trial)
	problems := append(slices.Clone(trial.Problems), judgeTrial(plan, &trial)...)
	if s.env.Pauses {
		problems = append(problems, judgePauses(plan, &trial)...)
	}
	problems = append(problems, s.verifyOutputs(ctx, plan, &trial)...)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	problems = append(problems, s.takeProblems()...)
	s.log(plan, &trial, len(problems))
	if len(problems) > 0 {
		s.recordFailure(i, plan, problems, len(trial.Problems) > 0)
	}
	return nil
}

// verifyOutputs reads the outputs of a run, and checks that those of earlier runs are unchanged.
func (s *soak) verifyOutputs(ctx context.Context, plan plannedRun, t *trial) (problems []string) {
	if plan.Place == nowhere {
		return nil
	}
	dirs := s.c.outputDirs(plan.Place)
	for _, run := range t.Runs {
		f := s.c.readRun(ctx, run.GetNumber(), dirs)
		s.tally.FoundEvents += f.foundEvents
		s.tally.RecoveredLines += f.recoveredLines
		if run.GetCompleted() != nil {
			s.tally.CompletedRecords++
		}
		problems = append(problems, judgeFound(plan, run, f)...)
	}
	again, changed, err := s.c.sealLog.verify(dirs)
	s.tally.CheckedSeals += again
	problems = append(problems, changed...)
	if err != nil {
		problems = append(problems, fmt.Sprintf("the outputs cannot be looked at: %v", err))
	}
	if len(problems) > 0 {
		return problems // keep all runs
	}
	if err := s.c.sealLog.forget(dirs, keptRuns); err != nil {
		problems = append(problems, err.Error())
	}
	return problems
}

// ensureCluster makes a cluster if there is none.
func (s *soak) ensureCluster(ctx context.Context) (err error) {
	if s.c != nil {
		return nil
	}
	s.clusterCount++
	dir := filepath.Join(s.dir.path, fmt.Sprintf("cluster-%02d", s.clusterCount))
	s.c, err = newCluster(ctx, s.env, s.exe, dir, s.addProblem)
	if err != nil {
		s.c = nil
	}
	return err
}

func (s *soak) addProblem(problem string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.problems = append(s.problems, problem)
}

func (s *soak) takeProblems() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.problems
	s.problems = nil
	return out
}

// log prints a line about a run: its settings, its faults and its verdicts.
func (s *soak) log(plan plannedRun, t *trial, problems int) {
	var faults []string
	for _, f := range t.FaultsMade {
		faults = append(faults, f.String())
	}
	if len(faults) == 0 {
		faults = []string{"no fault"}
	}
	mark := ""
	if problems > 0 {
		mark = "FAILED: "
	}
	fmt.Printf("%s plan %d: %s: %s: %s%s\n", time.Now().Format(time.TimeOnly), plan.Index, plan.summary(),
		strings.Join(faults, ", "), mark, t.verdicts())
}

// recordFailure keeps the files of a failure. If the cluster is stuck, the processes also write their stacks to their
// logs. The next run gets a new cluster in any case.
func (s *soak) recordFailure(i int, plan plannedRun, problems []string, stuck bool) {
	for _, p := range problems {
		fmt.Println("         FAILED:", p)
	}
	dir := s.c.dir
	s.countStarts()
	if stuck {
		s.c.dump()
	} else {
		problems = append(problems, s.c.close()...)
	}
	if err := s.c.saveSmallDisks(); err != nil {
		problems = append(problems, err.Error())
	}
	s.c.abandon()
	s.c = nil
	text := fmt.Sprintf("%s\n\n%+v\n\n%s\n", strings.Join(problems, "\n"), plan, s.repeatCommand(i))
	if err := os.WriteFile(filepath.Join(dir, "FAILED"), []byte(text), 0o644); err != nil {
		problems = append(problems, err.Error())
	}
	s.tally.Failures = append(s.tally.Failures, failure{
		Index:         i,
		Problems:      problems,
		KeptDir:       dir,
		RepeatCommand: s.repeatCommand(i),
	})
}

// repeatCommand is the command that repeats a run.
func (s *soak) repeatCommand(i int) string {
	args := fmt.Sprintf("bin/soak -seed %d -first %d -runs 1", s.flags.seed, i)
	if s.flags.shortRuns {
		args += " -short"
	}
	switch {
	case s.env.Hostile:
		args = fmt.Sprintf("bin/soak -hostile -for %v -seed %d", s.flags.duration, s.flags.seed)
	case s.env.Chain:
		args += fmt.Sprintf(" -chain %d", s.flags.chainDecisions)
	case s.env.Pauses:
		args += " -pauses"
	case !s.env.Mounts:
		args += " -loopback"
	}
	return args
}

// countStarts adds the restarts of the cluster's processes to the tally. It must be called before abandon.
func (s *soak) countStarts() {
	n, c := s.c.countStarts()
	s.tally.NodeRestarts += max(0, n-nodeCount)
	s.tally.ControlRestarts += max(0, c-1)
}

// finish ends the cluster with SIGTERM, and checks that it leaves nothing behind.
func (s *soak) finish() error {
	if s.c == nil {
		return nil
	}
	s.countStarts()
	dir := s.c.dir
	problems := append(s.c.close(), s.takeProblems()...)
	s.c.abandon()
	s.c = nil
	if len(problems) > 0 {
		s.tally.Failures = append(s.tally.Failures, failure{
			Index:         -1,
			Problems:      problems,
			KeptDir:       dir,
			RepeatCommand: "the whole soak",
		})
	}
	return nil
}
