package invariants_test

import (
	"strings"
	"testing"

	"ringlet/internal/invariants"
)

func TestCheckPanicsOnlyWhenEnabled(t *testing.T) {
	panicked := func(cond bool) (msg string) {
		defer func() {
			if r := recover(); r != nil {
				msg = r.(string)
			}
		}()
		invariants.Check(cond, "slot %d has two owners", 3)
		return ""
	}
	if msg := panicked(true); msg != "" {
		t.Errorf("a condition that holds panicked: %q", msg)
	}
	msg := panicked(false)
	if invariants.Enabled && !strings.Contains(msg, "slot 3 has two owners") {
		t.Errorf("broken invariant not reported: %q", msg)
	}
	if !invariants.Enabled && msg != "" {
		t.Errorf("panicked although disabled: %q", msg)
	}
}
