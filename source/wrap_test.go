package source

import (
	"strings"
	"testing"
)

// TestWrapOfAnInput holds what the option wrap takes, and of which kinds.
func TestWrapOfAnInput(t *testing.T) {
	list, err := ParseInputs("tcp:h:1?name=trigger&wrap=15,exec:./tlu ?wrap=1,unix:/a?wrap=63,udp:0.0.0.0:1/3?wrap=20," +
		"tcp:h:2")
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []uint8{15, 1, 63, 20, 0} {
		if got := list[i].Options.Wrap; got != want {
			t.Errorf("%s: %d bits, want %d", list[i].Text, got, want)
		}
	}
	for input, why := range map[string]string{
		"tcp:h:1?wrap=0":         `wrap is how many bits the counter of the front-end has, 1 to 63, not "0"`,
		"tcp:h:1?wrap=64":        `not "64"`,
		"tcp:h:1?wrap=-1":        `not "-1"`,
		"tcp:h:1?wrap=":          `not ""`,
		"tcp:h:1?wrap=1&wrap=1":  "it has wrap twice",
		"shm:cam?name=a&wrap=15": "shm: takes numbers of 64 bits only",
	} {
		if _, err := ParseInputs(input); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v, want %q", input, err, why)
		}
	}
}

// TestWrapIsLongEnoughForDatagrams: those of one lap must not be taken for those of the next.
func TestWrapIsLongEnoughForDatagrams(t *testing.T) {
	for _, c := range []struct {
		input   string
		packing int
		refused bool
	}{
		{"udp:127.0.0.1:1/3?wrap=15", 4000, false}, {"udp:127.0.0.1:1/3?wrap=15", 8000, true},
		{"udp:127.0.0.1:1/3?wrap=12", 1, true}, {"tcp:127.0.0.1:1?wrap=1", 8000, false},
		{"udp:127.0.0.1:1/3?wrap=63", 8000, false},
	} {
		s := Settings{RUs: 1, Input: c.input}
		s.Packing = c.packing
		if _, _, _, err := LiveBlocks(s); (err != nil) != c.refused {
			t.Errorf("%s with packing %d: %v", c.input, c.packing, err)
		}
	}
}
