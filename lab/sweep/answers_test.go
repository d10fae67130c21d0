package sweep

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"ringlet/lab/trial"
	"ringlet/testkit/must"
)

// TestAnswersOfASweep: bounds about figures of documents give answers.json, with the load that there was; a sweep
// without such bounds leaves none.
func TestAnswersOfASweep(t *testing.T) {
	const file = `
name: a
repeat: 2
reference-every: 0
fixed: {duration: 1s, nodes: 2}
bounds:
  - {of: a, figure: event_rate_hz, least: 1}
`
	for _, about := range []string{"",
		"  - {answers: F16, of: a, figure: apart.ru.phases, most: 1, document: equal counts}\n"} {
		s, dir := parse(t, file+about), t.TempDir()
		_, err := Run(t.Context(), s, Config{Dir: dir, Spawn: spawnFake, Command: "make it"})
		must.OK(t, err)
		text, err := os.ReadFile(filepath.Join(dir, fileAnswers))
		if about == "" {
			if !os.IsNotExist(err) {
				t.Errorf("%s, %v", text, err)
			}
			continue
		}
		must.OK(t, err)
		var a trial.Answers
		must.OK(t, json.Unmarshal(text, &a))
		if len(a.Answers) != 1 || a.Answers[0].FigureID != "F16" || a.Answers[0].MeasuredText != "1" ||
			a.Answers[0].Verdict != "matched" || a.Command != "make it" {
			t.Errorf("%s", text)
		}
	}
}

// TestOthers: the processor time of this process is not that of others.
func TestOthers(t *testing.T) {
	if systemCPU() < 0 {
		t.Skip("the kernel does not tell")
	}
	meanLoad := measureOtherLoad()
	for range 50_000_000 { // some tens of ms
		_ = t
	}
	if v := meanLoad(); v == nil || *v < 0 {
		t.Errorf("others used %v processors", v)
	}
}
