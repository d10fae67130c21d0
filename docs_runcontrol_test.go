package ringlet

import (
	"testing"

	"ringlet/ecs/partition"
	ecsrun "ringlet/ecs/run"
)

func TestManualPrintsTheMachine(t *testing.T) {
	generated(t, "docs/runcontrol.md", map[string]string{"states of a partition": partition.Markdown()})
	generated(t, "docs/design/010-runs.md", map[string]string{"machine of a run": ecsrun.Markdown()})
}
