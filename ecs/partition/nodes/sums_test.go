package nodes

import (
	"reflect"
	"strings"
	"testing"

	"ringlet/node"
)

// TestSumsAreOfCounters holds every name that a report or the accounts read against those that nodes count
// under: a mistyped one would be 0 for ever.
func TestSumsAreOfCounters(t *testing.T) {
	for _, from := range []any{
		counts{}, Report{}, BuilderShare{}, Decisions{}, ReadoutDecisions{}, Filter{}, FilterProcesses{}, Backlog{},
		SourceReport{}, OutputStream{},
	} {
		of, named := reflect.TypeOf(from), 0
		for i := range of.NumField() {
			names, tagged := of.Field(i).Tag.Lookup("sum")
			if !tagged {
				continue
			}
			for name := range strings.SplitSeq(names, ",") {
				named++
				if _, is := node.Counters().Find(name); !is {
					t.Errorf("%s.%s is the sum of %q, which no node counts", of, of.Field(i).Name, name)
				}
			}
		}
		if named == 0 {
			t.Errorf("%s is the sum of nothing", of)
		}
	}
}
