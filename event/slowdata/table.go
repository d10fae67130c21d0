package slowdata

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// maxNames is how many names a Table has at most.
const maxNames = 1000

// Table has the last value of each name. The zero Table is empty.
type Table struct {
	byName map[string]Value
}

// Note keeps a value in the place of an earlier one of its name; one that is older than what is there changes nothing.
// The error is a sentence: the table has maxNames other names.
func (t *Table) Note(v Value) error {
	was, known := t.byName[v.Name]
	switch {
	case !known && len(t.byName) >= maxNames:
		return fmt.Errorf("%s would be the name number %d of slow data, and at most %d are kept: use fewer names, and start "+
			"the control anew to forget those of earlier", v.Name, maxNames+1, maxNames)
	case known && v.Time.Before(was.Time) && !was.Time.After(v.Received): // a time that is still to come was wrong
		return nil
	case t.byName == nil:
		t.byName = map[string]Value{}
	}
	t.byName[v.Name] = v
	return nil
}

// Values are the last values, ordered by name.
func (t *Table) Values() []Value {
	return slices.SortedFunc(maps.Values(t.byName), func(a, b Value) int { return cmp.Compare(a.Name, b.Name) })
}
