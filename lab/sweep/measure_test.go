package sweep

import "testing"

// Lines of before 2026-11-21 do not tell the credits, and their settings do.
func TestCreditsOfOlderLines(t *testing.T) {
	for settings, want := range map[string]int{
		`{"key":"nodes","text":"8"},{"key":"packing","text":"4000"},{"key":"testbed.queue","text":"8KiB"},{"key":"load","text":"0.5"}`: 4,
		`{"key":"discipline","text":"pull"},{"key":"packing","text":"4000"}`:                                                           5,
		// no such run
		`{"key":"slots","text":"8"},{"key":"look-ahead","text":"3"},{"key":"debug.suspend-for","text":"20ms"}`: 0,
		`{"key":"slots","text":"8"},{"key":"look-ahead","text":"3"},{"key":"packing","text":"100"}`:            3,
		`{"key":"packing","text":"many"}`: 0,
	} {
		r := &results{}
		if err := r.line([]byte(`{"kind":"run","series":"a","cell":"a","round":1,"fixed":[` + settings +
			`],"setup":{"slots":4}}`)); err != nil {
			t.Fatal(err)
		}
		if got := r.Runs[0].Setup.Credits; got != want {
			t.Errorf("%s: %d credits, want %d", settings, got, want)
		}
	}
	r := &results{}
	if err := r.line([]byte(`{"kind":"run","setup":{"credits":7}}`)); err != nil || r.Runs[0].Setup.Credits != 7 {
		t.Errorf("%+v, %v", r.Runs, err)
	}
}
