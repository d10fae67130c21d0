package lhcb_test

import (
	"path/filepath"
	"testing"

	"ringlet/sim/study"
	"ringlet/testkit/must"
)

// TestStudiesLoad: each file of sim/studies is a study, or what studies include.
func TestStudiesLoad(t *testing.T) {
	names, err := filepath.Glob("../studies/*.yaml")
	must.OK(t, err)
	studies := 0
	for _, name := range names {
		if filepath.Base(name) == "common-lhcb.yaml" {
			continue
		}
		if s, err := study.Load(name); err != nil || s.Model == "" {
			t.Errorf("%s: %v", name, err)
		}
		studies++
	}
	if studies == 0 {
		t.Error("there are none")
	}
}
