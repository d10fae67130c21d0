package uplot

import (
	"strings"
	"testing"
)

func TestVersionIsThatOfTheScript(t *testing.T) {
	if head, _, _ := strings.Cut(Script, "\n"); !strings.Contains(head, "(v"+Version+")") {
		t.Errorf("the script begins with %q, and Version is %s", head, Version)
	}
	if !strings.Contains(License, "MIT") || !strings.Contains(Style, ".uplot") {
		t.Error("the licence or the style is not uPlot's")
	}
}
