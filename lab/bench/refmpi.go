package bench

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"ringlet/lab/tool"
	"ringlet/lab/trial"
)

//go:embed mpi/shift.c
var shiftSource []byte

// shiftRanks is how many ranks the shift has, as in the founding documents' tables.
const shiftRanks = 4

// mpi is the reference OpenMPI: a directory with the program.
type mpi struct{ dir string }

// newMPI compiles the shift. The directory is removed by close.
func newMPI(ctx context.Context) (*mpi, error) {
	if err := tool.Missing("mpicc", "mpirun"); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "ringlet-bench-")
	if err != nil {
		return nil, err
	}
	m := &mpi{dir}
	if err := os.WriteFile(filepath.Join(dir, "shift.c"), shiftSource, 0o600); err != nil {
		m.close()
		return nil, err
	}
	compile := tool.Command{Program: "mpicc", Args: []string{"-O2", "-o", "shift", "shift.c"}, Dir: dir}
	if _, err := compile.Run(ctx); err != nil {
		m.close()
		return nil, err
	}
	return m, nil
}

func (m *mpi) close() { _ = os.RemoveAll(m.dir) }

// shifting is the reference over the transports named, the first set that works.
func shifting(transports ...string) func(context.Context, *near, string) (trial.Figures, error) {
	return func(ctx context.Context, n *near, _ string) (trial.Figures, error) {
		return n.mpi.run(ctx, n.cfg.Duration, transports...)
	}
}

// run shifts for the duration over the transports named, the first set that works.
func (m *mpi) run(ctx context.Context, d time.Duration, transports ...string) (trial.Figures, error) {
	var err error
	for _, t := range transports {
		args := []string{"-n", strconv.Itoa(shiftRanks), "--oversubscribe", "--bind-to", "none", "--mca", "pml", "ob1",
			"--mca", "btl", t}
		if os.Geteuid() == 0 {
			args = append(args, "--allow-run-as-root")
		}
		args = append(args, filepath.Join(m.dir, "shift"), strconv.FormatFloat(d.Seconds(), 'f', 3, 64),
			strconv.Itoa(blockSize))
		var out []byte
		shift := tool.Command{Program: "mpirun", Args: args, Dir: m.dir}
		if out, err = shift.Run(ctx); err == nil {
			return parseShift(string(out))
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, err
}

// parseShift reads the shift's one line.
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
