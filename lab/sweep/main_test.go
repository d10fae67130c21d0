package sweep

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// The test binary is the program that a sweep spawns where this is set: it prints the report that a run with those
// flags might have.
const fakeRun = "RINGLET_SWEEP_FAKE_RUN"

func TestMain(m *testing.M) {
	if os.Getenv(fakeRun) != "" {
		os.Exit(fake(os.Args[1:]))
	}
	goleak.VerifyTestMain(m)
}

// fake is a system whose figures follow from its settings: central barriers take time with N, tournaments with log N.
func fake(args []string) int {
	set := map[string]string{"nodes": "4", "phase-end": "tournament", "run-number": "1"}
	for _, a := range args {
		if name, value, ok := strings.Cut(strings.TrimPrefix(a, "--"), "="); ok {
			set[name] = value
		}
	}
	n, _ := strconv.ParseFloat(set["nodes"], 64)
	wait := map[string]float64{"none": 0, "central": 20 * n, "tournament": 30 + 5*n}[set["phase-end"]]
	disturbances := []any{map[string]any{"disturbance": "9s:cut:n1", "done": false}} // not reached, which is no mistake
	switch set["run-number"] {
	case "13":
		fmt.Fprintln(os.Stderr, "ringlet: node n1: the run failed on purpose")
		return 1
	case "14":
		fmt.Println("no JSON")
		return 0
	case "15":
		set["accounts"] = "false"
	case "16":
		disturbances = append(disturbances, map[string]any{"disturbance": "1s:cut:n1", "done": false,
			"error": "ip: no such device"})
	}
	_ = json.NewEncoder(os.Stdout).Encode(map[string]any{
		"goodput_gbps": 0.2 * n * 100 / (100 + wait), "event_rate_hz": 1e5 / (100 + wait), "duration_s": 1.5,
		"events_built": 150000, "chunks_sent": 1000, "chunks_resent": 2, "chunks_duplicate": 1,
		"build_latency_us": map[string]any{"p50": 1000, "p99": 3000, "p999": 4000, "max": 9000},
		"barrier_us":       map[string]any{"p50": wait, "p99": 2 * wait, "max": 3 * wait},
		"barrier_share":    wait / (100 + wait),
		"phase_skew_us":    map[string]any{"p50": wait / 2, "p99": wait, "max": wait},
		"cpu_s_per_gb":     3.5, "accounting_ok": set["accounts"] == "", "accounts": []int{},
		"counters": []any{
			map[string]any{"node": "n0", "state": "Ready", "counters": map[string]any{"ru.phases": 7, "ru.dummies": 0,
				"bu.window_high": 5}},
			map[string]any{"node": "n1", "state": "Ready", "counters": map[string]any{"ru.phases": 6, "bu.window_high": 4}},
		},
		"builders": []any{map[string]any{"bu": 0, "rate_hz": 10}, map[string]any{"bu": 1, "rate_hz": 400},
			map[string]any{"bu": 2, "rate_hz": 410}},
		"testbed": map[string]any{"dropped_share": 0.02, "disturbances": disturbances},
		"timeline": []any{
			map[string]any{"ru": 0, "epoch": 1, "bu": 0, "mep": 0, "begin_us": 10, "sent_us": 60, "released_us": 80},
			map[string]any{"ru": 1, "epoch": 1, "bu": 1, "mep": 1, "begin_us": 12, "sent_us": 75, "released_us": 82},
		},
	})
	return 0
}

// spawnFake spawns the test binary as the program.
func spawnFake(ctx context.Context, t Turn) ([]byte, error) {
	cmd := exec.CommandContext(ctx, os.Args[0], t.Cell.Args...)
	cmd.Env = append(os.Environ(), fakeRun+"=1", "GORACE=atexit_sleep_ms=0") // a second of each process's end otherwise
	return cmd.Output()
}

func parse(t *testing.T, text string) *Sweep {
	t.Helper()
	s, err := parseList("s.yaml", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
