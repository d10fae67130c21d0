package ctl

import (
	"bytes"
	"regexp"
	"testing"

	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// Who takes no part is excluded, or a spare.
func TestWhoTakesPart(t *testing.T) {
	var out bytes.Buffer
	err := writeStatus(&out, &ecsv1.PartitionStatus{Root: &ecsv1.Component{
		Name:     "partition",
		State:    "Ready",
		Included: true,
		Children: []*ecsv1.Component{
			{Name: "n0", State: "Ready", Included: true}, {Name: "n1", State: "Offline"},
			{Name: "n2", State: "Offline", Spare: true},
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`n0 +Ready +yes`, `n1 +Offline +excluded`, `n2 +Offline +spare`} {
		if !regexp.MustCompile(want).Match(out.Bytes()) {
			t.Errorf("no line matches %q in\n%s", want, &out)
		}
	}
}
