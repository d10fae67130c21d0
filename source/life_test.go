package source

import (
	"strings"
	"testing"
	"time"
)

// TestFollowOptions holds how an input says what its front-ends have of the run.
func TestFollowOptions(t *testing.T) {
	for input, want := range map[string]Options{
		"tcp:h:1?require":                       {Require: 30 * time.Second},
		"tcp:h:1?secret=a&require=2m":           {Require: 2 * time.Minute},
		"unix:/a?start=last&stop=first":         {StartsLast: true, StopsFirst: true},
		"exec:./x -v ?config=a.yaml&name=b":     {Name: "b", Config: "a.yaml"},
		"tcp:h:1?name=a&max=1MiB&require=1h":    {Name: "a", MaxFragment: 1 << 20, Require: time.Hour},
		"shm:a?size=1MiB&name=b":                {Name: "b"},
		"udp:0.0.0.0:1/3?allow=10.0.0.1&name=c": {Name: "c"},
	} {
		list, err := ParseInputs(input)
		if err != nil || list[0].Options != want {
			t.Errorf("%s: %+v, %v", input, list, err)
			continue
		}
		if got := AwaitsFrontends(list); got != (want.Require > 0 || want.StartsLast) {
			t.Errorf("%s: a start waits: %v", input, got)
		}
	}
	for input, why := range map[string]string{
		"tcp:h:1?require=0s":         "is no time between 1s and 1h",
		"tcp:h:1?require=2h":         "is no time between 1s and 1h",
		"tcp:h:1?require&require=2m": "require twice",
		"tcp:h:1?start=first":        "start=first is unknown: there is start=last",
		"tcp:h:1?stop=last":          "stop=last is unknown: there is stop=first",
		"tcp:h:1?stop=first&stop=":   "stop twice",
		"tcp:h:1?config=":            "must name one file",
		"tcp:h:1?config=a&config=b":  "must name one file",
		"shm:a?require&config=b":     "a front-end of shm: cannot be given a file",
		"udp:0.0.0.0:1/3?config=a":   "a front-end of udp: cannot follow the run",
		"udp:0.0.0.0:1/3?stop=first": "a front-end of udp: cannot follow the run",
	} {
		if _, err := ParseInputs(input); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v, want %q", input, err, why)
		}
	}
}
