package source

import (
	"slices"
	"strings"
	"testing"
)

// TestSourceNames holds which part of an address is the name of a source, and what is left for the kind.
func TestSourceNames(t *testing.T) {
	for input, want := range map[string][][3]string{ // name, address, text
		"tcp:127.0.0.1:7000?name=tof": {{"tof", "127.0.0.1:7000", "tcp:127.0.0.1:7000?name=tof"}},
		"tcp:h:1?name=tof&secret=a,shm:cam0,unix:/a?b": {{"tof", "h:1?secret=a", "tcp:h:1?name=tof&secret=a"},
			{"shm:cam0", "cam0", "shm:cam0"}, {"unix:/a?b", "/a?b", "unix:/a?b"}},
		"tcp:h:1?secret=a&name=b_2": {{"b_2", "h:1?secret=a", "tcp:h:1?secret=a&name=b_2"}},
		"udp:0.0.0.0:1/3?allow=10.0.0.1,10.0.0.2&name=x-1": {{"x-1", "0.0.0.0:1/3?allow=10.0.0.1,10.0.0.2",
			"udp:0.0.0.0:1/3?allow=10.0.0.1,10.0.0.2&name=x-1"}},
		"exec:curl h/?name=b":          {{"exec:curl h/?name=b", "curl h/?name=b", "exec:curl h/?name=b"}},
		"exec:./readout -v ?name=tof":  {{"tof", "./readout -v", "exec:./readout -v ?name=tof"}},
		"exec:ls ?? -l":                {{"exec:ls ?? -l", "ls ?? -l", "exec:ls ?? -l"}},
		"shm:cam0?name=camera,shm:cam": {{"camera", "cam0", "shm:cam0?name=camera"}, {"shm:cam", "cam", "shm:cam"}},
	} {
		list, err := ParseInputs(input)
		if err != nil {
			t.Errorf("%s: %v", input, err)
			continue
		}
		var got [][3]string
		for _, in := range list {
			got = append(got, [3]string{in.Name, in.Address, in.Text})
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", input, got, want)
		}
	}
	for input, why := range map[string]string{
		"tcp:h:1?name=":                         `"" is no name of a source`,
		"tcp:h:1?name=1a":                       `"1a" is no name of a source`,
		"tcp:h:1?name=a b":                      `"a b" is no name of a source`,
		"tcp:h:1?name=a&name=b":                 "it has two names",
		"tcp:h:1?name=a,shm:b,shm:c?name=a":     "sources 0 and 2 are both called a",
		"shm:b?name=" + strings.Repeat("x", 33): "is no name of a source",
	} {
		if _, err := ParseInputs(input); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v, want %q", input, err, why)
		}
		if all := CheckInput(input); len(all) == 0 || !strings.Contains(all[0].Error(), why) {
			t.Errorf("%s: %v, want %q", input, all, why)
		}
	}
}
