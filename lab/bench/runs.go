package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
)

// Whole runs, spawned as a user would: `ringlet run` with these flags and --json.

// runSpec is one kind of run.
type runSpec struct {
	name string
	what string
	args []string
}

// Flags that runs share.
var (
	runAlways = []string{"--json", "--duration", "3s", "--run-number", "4026531839"}
	// MFPs of 1 MiB that are made before the run: what is measured is how they move.
	runLarge = []string{"--packing", "8000", "--streams", "1", "--prepared", "16", "--verify", "off"}
	runSmall = []string{"--packing", "1", "--fragment-size", "128", "--fragment-model", "constant", "--streams", "1",
		"--phase-end", "none", "--prepared", "65536", "--verify", "off"}
	shapePair   = []string{"--rus", "1", "--bus", "1"}
	shapeFolded = []string{"--nodes", "4"}
	shapeTwo    = []string{"--nodes", "2"}
	shapeFan    = []string{"--rus", "3", "--bus", "26"}
)

// foldedNodes of the runs "folded".
const foldedNodes = 4

// runSpecs lists the runs of a round for the carriers that are measured.
func runSpecs(names []string) []runSpec {
	var out []runSpec
	add := func(kind, carrier, what string, args ...[]string) {
		all := slices.Concat(append([][]string{{"run"}, runAlways, {"--transport", carrier}}, args...)...)
		out = append(out, runSpec{kind + " " + carrier, what, all})
	}
	for _, c := range names {
		add("pair", c, "1 RU to 1 BU, MFPs of 1 MiB", shapePair, runLarge)
		add("folded", c, "4 folded nodes, MFPs of 1 MiB", shapeFolded, runLarge)
		if c == "quic" || c == "express" || c == "local" {
			add("small", c, "2 folded nodes, 128 B, packing 1", shapeTwo, runSmall)
		}
		if c == "express" {
			add("fan", c, "3 RUs to 26 BUs, 128 B, packing 1", shapeFan, runSmall)
		}
		if c == "quic" || c == "express" {
			add("loss 0.1 %", c, "1 RU to 1 BU, 0.1 % thrown away", shapePair, runLarge, []string{"--debug-drop", "0.001"})
			add("loss 1 %", c, "1 RU to 1 BU, 1 % thrown away", shapePair, runLarge, []string{"--debug-drop", "0.01"})
		}
	}
	return out
}

// runResult is one run's figures, by the names they have in its report.
type runResult struct {
	Gbps    float64 `json:"goodput_gbps"`
	Events  float64 `json:"event_rate_hz"`
	CPU     float64 `json:"cpu_s_per_gb"`
	Sent    uint64  `json:"chunks_sent"`
	Resent  uint64  `json:"chunks_resent"`
	Balance bool    `json:"accounting_ok"`
}

func (s *session) runTasks() []task {
	var out []task
	for _, spec := range runSpecs(s.cfg.Carriers) {
		out = append(out, task{"run " + spec.name, "run " + spec.name, func(ctx context.Context, r *round) error {
			res, err := spawnRun(ctx, s.cfg.Program, spec.args)
			if err == nil {
				r.runs[spec.name] = res
			}
			return err
		}})
	}
	return out
}

// spawnRun runs `ringlet run` and reads its report.
func spawnRun(ctx context.Context, program string, args []string) (runResult, error) {
	out, err := runTool(ctx, "", program, args...)
	var exit *exec.ExitError
	if err != nil && !(errors.As(err, &exit) && len(out) > 0) {
		return runResult{}, err
	}
	return parseRun(out)
}

// parseRun reads the report of a run; one whose accounts do not balance is no result.
func parseRun(out []byte) (runResult, error) {
	var r runResult
	if err := json.Unmarshal(out, &r); err != nil {
		return r, fmt.Errorf("ringlet run printed what is no report: %w", err)
	}
	if !r.Balance {
		return r, &accountError{"the run's do not balance, or it failed: it is no result"}
	}
	return r, nil
}

// RunArgs lists the command lines of all whole runs, which the program must understand.
func RunArgs() [][]string {
	var out [][]string
	for _, s := range runSpecs(carrierNames()) {
		out = append(out, s.args)
	}
	return out
}
