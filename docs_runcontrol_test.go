package ringlet

import (
	"testing"

	"ringlet/ecs/partition"
)

func TestManualPrintsTheMachine(t *testing.T) {
	generated(t, "docs/runcontrol.md", map[string]string{"states of a partition": partition.Markdown()})
}
