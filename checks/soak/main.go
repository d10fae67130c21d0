package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"ringlet/internal/decimal"
	"ringlet/lab/testbed"
)

// Exit codes.
const (
	exitOK          = 0
	exitFailed      = 1 // a run of the plan failed, or a check at the end
	exitUsage       = 2 // wrong flags, or a machine that cannot run a soak
	exitInterrupted = 130
)

func init() { runtime.LockOSThread() } // for isolate, and so that no host gets the main thread

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx)
	stop()
	os.Exit(code)
}

// flags of the command line.
type flags struct {
	duration            time.Duration
	seed                uint64
	firstRun, maxRuns   int
	exe, dir            string
	shortRuns, loopback bool
	chainDecisions      uint64
	pauses              bool
	hostile             bool
	memory              uint64
	attack              string
	maxFailures         int
	faults              bool
	rows                string
}

func parse() (f flags) {
	f.seed, f.maxFailures, f.memory = 1, 5, 1024
	flag.DurationVar(&f.duration, "for", 10*time.Minute, "begin no further run after this time")
	flag.Var(decimal.Flag[uint64]{To: &f.seed}, "seed", "seed of the plan: the same seed gives the same runs and faults")
	flag.Var(decimal.Flag[int]{To: &f.firstRun}, "first", "begin with this run of the plan")
	flag.Var(decimal.Flag[int]{To: &f.maxRuns}, "runs", "end after so many runs of the plan; 0: the time alone ends it")
	flag.StringVar(&f.exe, "bin", "bin/ringlet", "the program")
	flag.StringVar(&f.dir, "dir", os.TempDir(), "where it makes its directory, which stays if something failed")
	flag.BoolVar(&f.shortRuns, "short", false, "short runs, for a check of a minute")
	flag.BoolVar(&f.loopback, "loopback", false,
		"processes on loopback even where there could be hosts: no faults of network and disk")
	flag.Var(decimal.Flag[uint64]{To: &f.chainDecisions}, "chain",
		"judge and decide the events of a simulated detector, on loopback and without files, until a subscriber has seen so "+
			"many decisions; builder units, filters and the decision unit are killed")
	flag.BoolVar(&f.pauses, "pauses", false,
		"on loopback, have one process of each run stand still for 1 to 30 s, which its policies tolerate: it may not end")
	flag.BoolVar(&f.hostile, "hostile", false,
		"one run on loopback, with front-ends, and strangers who do what they can against it; then its accounts")
	flag.Var(decimal.Flag[uint64]{To: &f.memory}, "memory", "with -hostile: MiB that a process may have at most")
	flag.Func("attack", "with -hostile: make only attacks with this in their name", func(name string) error {
		if f.attack != "" {
			return fmt.Errorf("it is given twice, after %q: give what both names have in common", f.attack)
		}
		f.attack = name
		return nil
	})
	flag.BoolVar(&f.faults, "faults", false,
		"make the table of faults: each fault at each kind of process, and what became of the run")
	flag.StringVar(&f.rows, "rows", "", "with -faults: only rows with all these words, separated by commas")
	flag.Var(decimal.Flag[int]{To: &f.maxFailures}, "failures", "give up after so many failures")
	flag.Parse()
	return f
}

func run(ctx context.Context) int {
	f := parse()
	complain := func(err error) int { fmt.Fprintln(os.Stderr, "soak:", err); return exitUsage }
	exe, err := filepath.Abs(f.exe)
	if err == nil {
		_, err = os.Stat(exe)
	}
	if err != nil {
		return complain(fmt.Errorf("-bin: no program: %w; make build makes it", err))
	}
	env, where := detectEnv(f)
	if f.hostile && len(selectedAttacks(f)) == 0 {
		return complain(fmt.Errorf("-attack: no attack has %q in its name; docs/soak.md lists them", f.attack))
	}
	dir, err := makeDir(f.dir)
	if err != nil {
		return complain(err)
	}
	s := &soak{
		flags: f,
		env:   env,
		exe:   exe,
		dir:   dir,
		tally: newTally(f.seed, where),
	}
	fmt.Printf("soak: seed %d, %s, in %s\n", f.seed, where, dir.path)
	switch {
	case f.hostile:
		err = s.runHostile(ctx)
	case f.faults:
		err = s.runFaults(ctx)
	default:
		err = s.runAll(ctx)
	}
	s.tally.write(os.Stdout)
	if removed := dir.close(len(s.tally.Failures) > 0); removed != nil {
		err = errors.Join(err, removed)
	}
	switch {
	case err != nil && ctx.Err() == nil:
		return complain(err)
	case len(s.tally.Failures) > 0:
		return exitFailed
	case ctx.Err() != nil:
		fmt.Println("soak: interrupted")
		return exitInterrupted
	}
	return exitOK
}

// detectEnv returns what this machine can do, and a description of it.
func detectEnv(f flags) (env, string) {
	env := env{Short: f.shortRuns, Chain: f.chainDecisions > 0, Pauses: f.pauses &&
		f.chainDecisions == 0, Hostile: f.hostile, Faults: f.faults}
	if env.Hostile {
		return env, "strangers, processes on loopback"
	}
	if env.Chain {
		where := "the chain, processes on loopback"
		if env.Python = findPython(); env.Python == "" {
			where += ", NO FILTER PROCESSES: there is no python3 of 3.9 or newer"
		}
		return env, where
	}
	if env.Pauses {
		return env, "pauses, processes on loopback"
	}
	if f.loopback {
		return env, "processes on loopback: no faults of network and disk, as was asked for"
	}
	if err := isolate(); err != nil {
		return env, fmt.Sprintf(
			"processes on loopback: NO FAULTS OF NETWORK AND DISK, no file systems of its own can be had: %v", err)
	}
	env.Mounts = true
	// If the network cannot have faults, a soak still has all the others.
	if err := testbed.CheckPossible(); err != nil {
		return env, fmt.Sprintf("processes on loopback: NO FAULTS OF THE NETWORK: %v", err)
	}
	env.Network = true
	where := fmt.Sprintf("%d hosts and the control's on a switch", nodeCount)
	if err := testbed.CheckFilter(); err != nil {
		return env, fmt.Sprintf("%s, NO FAULTS OF PACKETS: %v", where, err)
	}
	env.Filter = true
	return env, where
}
