package source

import (
	"strings"
	"testing"

	"ringlet/event"
	"ringlet/source/live"
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
		"tcp:h:1?wrap=0":                      `wrap is how many bits the counter of the front-end has, 1 to 63, not "0"`,
		"tcp:h:1?wrap=64":                     `not "64"`,
		"tcp:h:1?wrap=-1":                     `not "-1"`,
		"tcp:h:1?wrap=":                       `not ""`,
		"tcp:h:1?wrap=1&wrap=1":               "it has wrap twice",
		"shm:cam?name=a&wrap=15":              "shm: takes numbers of 64 bits only",
		"tcp:h:1?number=bunch":                `event, trigger, or time/25ns, say, and not "bunch"`,
		"tcp:h:1?number=trigger&number=event": "it has number twice",
		"tcp:h:1?number=time":                 `"" is no such time`,
		"tcp:h:1?number=time/0s":              `"0s" is no such time`,
		"tcp:h:1?number=time/1s&wrap=15":      "a time stamp does not wrap",
		"tcp:h:1?delay=5ns":                   "take number=time/25ns, say, or leave delay out",
		"tcp:h:1?number=time/1s&delay=5":      `not "5"`,
		"udp:h:1/3?number=trigger":            "fragments of udp: have no trigger number and no time stamp",
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

// TestTicks: the nearest tick, whatever the delay, and none before the first.
func TestTicks(t *testing.T) {
	for _, c := range []struct {
		stamp, period uint64
		delay         int64
		want          uint64
		lacks         bool
	}{
		{0, 25, 0, 0, false}, {12, 25, 0, 0, false}, {13, 25, 0, 1, false}, {37, 25, 0, 1, false}, {38, 25, 0, 2, false},
		{5, 10, 0, 1, false}, {1000, 25, 350, 26, false}, {1000, 25, -350, 54, false}, {349, 25, 350, 0, true},
		{1<<64 - 1, 1, 0, 1<<64 - 1, false}, {1<<64 - 1, 1, -1, 0, true}, {1<<64 - 1, 2, 0, 1 << 63, false},
		{1_700_000_000_123_456_789, 1, 0, 1_700_000_000_123_456_789, false},
	} {
		o := Options{NumberedBy: ByTime, Period: c.period, Delay: c.delay}
		f := live.Fragment{Words: event.Words{HasStamp: true, Stamp: c.stamp}}
		if got, why, ok := o.numberOf(&f); got != c.want || ok == c.lacks || ok == (why.Lacks != "") {
			t.Errorf("%+v: %d, %q", c, got, why.Lacks)
		}
	}
}
