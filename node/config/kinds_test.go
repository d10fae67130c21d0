package config

import (
	"slices"
	"strings"
	"testing"

	"ringlet/builderunit/sink"
	"ringlet/internal/registry"
)

// An output is checked by the row of its kind, of whatever kinds there are.
func TestOutputIsCheckedByItsRow(t *testing.T) {
	before := sink.Kinds
	defer func() { sink.Kinds = before }()
	checked := ""
	sink.Kinds = append(slices.Clone(before), sink.Kind{
		Kind:   registry.Kind{Name: "far"},
		Remote: true,
		Check:  func(output string) error { checked = output; return nil },
	})
	c := configWith(func(n *Config) { n.Output = "far:h:1" })
	if err := c.Complete(); err != nil || checked != "far:h:1" || c.Format != "far" ||
		!strings.HasPrefix(c.Output, "far:") {
		t.Errorf("%q is asked for, the format is %s, the output %s: %v", checked, c.Format, c.Output, err)
	}
}
