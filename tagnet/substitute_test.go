package tagnet

import (
	"errors"
	"testing"

	"ringlet/tagnet/core"
)

func TestMemberOf(t *testing.T) {
	var s substitutes
	s.set("a", "x")
	s.set("b", "a")
	s.set("c", "y")
	s.set("c", "")
	for node, want := range map[string]string{"x": "a", "a": "b", "b": "", "c": "c", "y": "y", "z": "z"} {
		if got := s.memberOf(node); got != want {
			t.Errorf("%s has the units of %q, want %q", node, got, want)
		}
	}
}

// TestSubstituteAttaches holds that a substitute has the readout unit of a node that is gone, and the node itself has
// not.
func TestSubstituteAttaches(t *testing.T) {
	sys := serve(t, small(2, 1))
	if err := sys.server.SetSubstitute("rux", "spare"); !errors.Is(err, errUnknownUnit) {
		t.Errorf("a substitute for nobody: %v", err)
	}
	_, err := newRUClient(testContext(t), sys.conn, sys.scope("spare"), nil)
	if why, _ := refusedAs(t, err); why != core.RefusedName {
		t.Errorf("a spare is refused as %v: %v", why, err)
	}
	must(t, sys.server.SetSubstitute("ru1", "spare"))
	_, err = newRUClient(testContext(t), sys.conn, sys.scope("ru1"), nil)
	if why, _ := refusedAs(t, err); why != core.RefusedName {
		t.Errorf("a node for which another substitutes is refused as %v: %v", why, err)
	}
	ru, err := newRUClient(testContext(t), sys.conn, sys.scope("spare"), nil)
	must(t, err)
	ru.Close()
}
