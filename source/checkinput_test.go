package source

import (
	"strings"
	"testing"
)

func TestMistakesOfInputs(t *testing.T) {
	for input, want := range map[string][]string{
		"": nil, "run.mdf": nil, "/a/b:c.mdf": nil, "file:run:1.mdf": nil, "tcp:127.0.0.1:1,shm:cam?size=1MiB": nil,
		"exec:echo a,b: c,exec:echo a": nil, "udp::19522/3": nil,
		"TCP:127.0.0.1:1":                 {"small letters"},
		"tpc:127.0.0.1:1":                 {"nearest one is tcp"},
		"tcp:127.0.0.1:1,upd:127.0.0.1:1": {"nearest one is udp"},
		"tcp:127.0.0.1:1 , tcp:h:2":       {"blank"},
		"tcp:h:99999,udp:h,shm:,unix:":    {"port 99999", "no port", "no name", "no path"},
	} {
		got := CheckInput(input)
		if len(got) != len(want) {
			t.Errorf("%s: %v", input, got)
			continue
		}
		for i, err := range got {
			if !strings.Contains(err.Error(), want[i]) {
				t.Errorf("%s: %v", input, err)
			}
		}
	}
}

func TestClashesOfInputs(t *testing.T) {
	one := func(int) string { return "h" }
	each := func(id int) string { return string(rune('a' + id)) }
	for input, want := range map[string][2]int{
		"tcp:127.0.0.1:1,tcp:127.0.0.1:1": {1, 1}, "tcp::1,tcp:127.0.0.1:1": {1, 0}, "shm:a,shm:a": {1, 0},
		"tcp:0.0.0.0:1,tcp:0.0.0.0:1": {1, 0}, "tcp:h:1,udp:h:1": {0, 0}, "exec:x,exec:x": {0, 0},
		"udp:h:1/1,udp:h:1/2": {1, 1}, "unix:/a,unix:/a": {1, 0},
	} {
		list, err := ParseInputs(input)
		if err != nil {
			t.Fatal(err)
		}
		if a, b := len(FindClashes(list, one)), len(FindClashes(list, each)); a != want[0] || b != want[1] {
			t.Errorf("%s: %d on one host, %d on two", input, a, b)
		}
	}
}
