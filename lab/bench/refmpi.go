package bench

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"ringlet/lab/tool"
	"ringlet/lab/trial"
)

//go:embed mpi/shift.c
var shiftSource []byte

// shiftRanks is the number of ranks, as in the founding documents' tables.
const shiftRanks = 4

// mpi is a program of the reference OpenMPI, in a directory of its own.
type mpi struct{ dir, program string }

// newMPI compiles a program. close removes the directory.
func newMPI(ctx context.Context, program string, source []byte) (*mpi, error) {
	if err := tool.CheckInstalled("mpicc", "mpirun"); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "ringlet-bench-")
	if err != nil {
		return nil, err
	}
	m := &mpi{dir, program}
	if err := os.WriteFile(filepath.Join(dir, program+".c"), source, 0o600); err != nil {
		m.close()
		return nil, err
	}
	compile := tool.Command{Program: "mpicc", Args: []string{"-O2", "-o", program, program + ".c"}, Dir: dir}
	if _, err := compile.Run(ctx); err != nil {
		m.close()
		return nil, err
	}
	return m, nil
}

func (m *mpi) close() { _ = os.RemoveAll(m.dir) }

// shiftReference measures the shift over the first of the transports that works.
func shiftReference(transports ...string) func(context.Context, *near, string) (trial.Figures, error) {
	var settings [][]string
	for _, t := range transports {
		settings = append(settings, []string{"btl", t})
	}
	return func(ctx context.Context, n *near, _ string) (trial.Figures, error) {
		out, err := n.mpi.startFirst(ctx, shiftRanks, settings, n.cfg.Duration, inSeconds(n.cfg.Duration),
			strconv.Itoa(blockSize))
		if err != nil {
			return nil, err
		}
		return parseShift(string(out))
	}
}

// mpiTimeout is how long a program may take beyond its measurement: it has to start, and on a busy machine all ranks
// wait for processors.
const mpiTimeout = 30 * time.Second

// startFirst runs a program that measures for the time measures. It tries the sets of settings in order, until the
// program succeeds with one.
func (m *mpi) startFirst(ctx context.Context, ranks int, settings [][]string, measures time.Duration, args ...string) (
	out []byte, err error) {
	most := mpiTimeout + 2*measures
	for _, set := range settings {
		within, end := context.WithTimeoutCause(ctx, most, fmt.Errorf("OpenMPI has not ended after %v", most))
		if out, err = m.start(within, ranks, set, args...); err != nil && within.Err() != nil {
			err = context.Cause(within)
		}
		end()
		if err == nil || ctx.Err() != nil {
			break
		}
	}
	return out, err
}

// start runs the program to its end, with the given number of ranks, all on this machine. A setting is a name and a
// value of OpenMPI.
func (m *mpi) start(ctx context.Context, ranks int, settings []string, args ...string) ([]byte, error) {
	all := []string{"-n", strconv.Itoa(ranks), "--oversubscribe", "--bind-to", "none", "--mca", "pml", "ob1"}
	for s := range slices.Chunk(settings, 2) {
		all = append(all, "--mca", s[0], s[1])
	}
	if os.Geteuid() == 0 {
		all = append(all, "--allow-run-as-root")
	}
	all = append(append(all, filepath.Join(m.dir, m.program)), args...)
	return tool.Command{Program: "mpirun", Args: all, Dir: m.dir}.Run(ctx)
}

// inSeconds formats a duration as an argument of the MPI programs: seconds, with three decimals.
func inSeconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 3, 64) }

// parseShift reads the one line that the shift prints.
func parseShift(out string) (trial.Figures, error) {
	var ranks int
	var seconds, bytes, share, cpu float64
	line := tool.LastLine([]byte(out))
	if n, _ := fmt.Sscanf(line, "shift %d %g %g %g %g", &ranks, &seconds, &bytes, &share, &cpu); n != 5 ||
		ranks != shiftRanks || seconds <= 0 {
		return nil, fmt.Errorf("the shift printed %q", strings.TrimSpace(out))
	}
	return trial.Figures{
		"goodput_gbps":  bytes * 8 / seconds / 1e9,
		"barrier_share": share,
		"cpu_s_per_gb":  cpu / max(bytes, 1) * 1e9,
	}, nil
}
