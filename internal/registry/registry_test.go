package registry

import "testing"

type row struct {
	Kind
	legs int
}

var table = []row{{Kind{"hen", "it lays"}, 2}, {Kind{"cat", "it sleeps"}, 4}}

func TestTable(t *testing.T) {
	if r, err := Find("animal", table, "cat"); err != nil || r.legs != 4 {
		t.Errorf("%+v, %v", r, err)
	}
	const want = `the animal "dog" is unknown: it must be one of hen, cat`
	if _, err := Find("animal", table, "dog"); err == nil || err.Error() != want {
		t.Errorf("%v, not %s", err, want)
	}
	if got := Help(table); got != "hen (it lays), cat (it sleeps)" {
		t.Error(got)
	}
}

func TestWord(t *testing.T) {
	type color uint8
	for n, want := range map[color]string{0: "color 0", 1: "red", 2: "green", 3: "color 3"} {
		if got := NameOf(n, "color", "", "red", "green"); got != want {
			t.Errorf("%d: %q, not %q", n, got, want)
		}
	}
}
