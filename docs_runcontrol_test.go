package ringlet

import (
	"strings"
	"testing"

	"ringlet/ecs/partition"
	ecsrun "ringlet/ecs/run"
)

func TestManualPrintsTheMachine(t *testing.T) {
	// What every command does in every state stands in docs/design/004-component-states.md alone.
	transitions, rest, _ := strings.Cut(partition.Markdown(), "\n| |")
	_, note, _ := strings.Cut(rest, "\n\n")
	generated(t, "docs/runcontrol.md", map[string]string{"states of a partition": transitions + "\n" + note})
	generated(t, "docs/design/010-runs.md", map[string]string{"machine of a run": ecsrun.Markdown()})
}
