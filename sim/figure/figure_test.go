package figure_test

import (
	"testing"

	"ringlet/sim/figure"
)

func TestHolds(t *testing.T) {
	for _, c := range []struct {
		p    figure.Point
		want bool
	}{
		{figure.Point{Document: 100, Model: 109}, true},
		{figure.Point{Document: 100, Model: 111}, false},
		{figure.Point{Document: 100, Model: 89}, false},
		{figure.Point{Document: 30, Model: 30, Rule: figure.AtLeast}, true},
		{figure.Point{Document: 30, Model: 29.9, Rule: figure.AtLeast}, false},
		{figure.Point{Document: 30, Model: 30.1, Rule: figure.AtMost}, false},
		{figure.Point{Document: -6, Model: -4.1, Rule: figure.Difference}, true},
		{figure.Point{Document: -6, Model: -3.9, Rule: figure.Difference}, false},
		{figure.Point{Document: -1, Model: 0.5, Rule: figure.Difference}, false},
		{figure.True("is", true), true},
		{figure.True("is not", false), false},
	} {
		if c.p.Holds() != c.want {
			t.Errorf("%+v holds: %v", c.p, !c.want)
		}
		if c.p.Rule.String() == "" {
			t.Errorf("%+v: the rule has no name", c.p)
		}
	}
}
