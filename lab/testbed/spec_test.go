package testbed

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"ringlet/node/config"
)

func specFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bed.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTheSlowestPort(t *testing.T) {
	for want, s := range map[Rate]Spec{
		200e6: {}, 5e6: {Hosts: 2, Ports: Rates{"n1": 5e6}}, 300e6: {Hosts: 2, Ports: Rates{"n0": 400e6, "n1": 300e6}},
		1e9: {Rate: 1e9, Ports: Rates{"n1": 2e9}},
	} {
		if err := s.Complete(); err != nil {
			t.Fatal(err)
		}
		if got := s.SlowestRate(); got != want {
			t.Errorf("%+v: %v", s, got)
		}
	}
}

func TestSpec(t *testing.T) {
	for _, tc := range []struct {
		name, file string
		flags      Spec
		want       Spec
	}{
		{"nothing", "", Spec{}, Spec{Hosts: 4, Rate: 200e6, Queue: 32 << 10, MTU: 1500}},
		{"flags", "", Spec{Hosts: 8, Rate: 1e9, Queue: 64 << 10, MTU: 9000, Ports: Rates{"n7": 5e7}},
			Spec{Hosts: 8, Rate: 1e9, Queue: 64 << 10, MTU: 9000, Ports: Rates{"n7": 5e7}}},
		{"file", "hosts: 8\nrate: 1Gbit\nqueue: 64KiB\nburst: 20KB\nmtu: 9000\nports: n2=50Mbit, n5=1.5Gbit\n", Spec{},
			Spec{Hosts: 8, Rate: 1e9, Queue: 64 << 10, Burst: 20e3, MTU: 9000, Ports: Rates{"n2": 5e7, "n5": 15e8}}},
		{"tree", "hosts: 8\nleaves: 3\nspines: 1\n", Spec{Spines: 2},
			Spec{Hosts: 8, Rate: 200e6, Queue: 32 << 10, MTU: 1500, Leaves: 3, Spines: 2}},
		{"flags win", "hosts: 8\nrate: 1Gbit\nports: n2=50Mbit\n", Spec{Hosts: 3, Ports: Rates{"n1": 2e6}},
			Spec{Hosts: 3, Rate: 1e9, Queue: 32 << 10, MTU: 1500, Ports: Rates{"n1": 2e6}}},
	} {
		s, err := LoadSpec(specFile(t, tc.file))
		if err == nil {
			s.Override(tc.flags)
			err = s.Complete()
		}
		if d := cmp.Diff(tc.want, s, cmpopts.IgnoreUnexported(Spec{})); err != nil || d != "" {
			t.Errorf("%s: %v\n%s", tc.name, err, d)
		}
	}
}

func TestSpecRefusals(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"hosts: 4\nrat: 1Gbit", `bed.yaml:2: rat: there is no such setting; the nearest one is "rate"`},
		{"hosts: many", `bed.yaml:1: hosts: "many" is not a whole number`},
		{"mtu: 1500\nhosts: 129", "bed.yaml:2: hosts: 129 is not between 1 and 128"},
		{"hosts: -1", "bed.yaml:1: hosts: -1 is not between"},
		{"rate: 200", `bed.yaml:1: rate: rate "200" is not a number with a unit`},
		{"rate: 1kbit", "bed.yaml:1: rate: 1kbit is not between 1Mbit and 100Gbit"},
		{"mtu: 500", "bed.yaml:1: mtu: 500 is not between 1280 and 9216"},
		{"mtu: 9000\nqueue: 4KiB", "bed.yaml:2: queue: 4KiB is not between two full packets (18028 bytes) and 64MiB"},
		{"burst: 1KiB", "bed.yaml:1: burst: 1KiB is not between two full packets (3028 bytes)"},
		{"ports: n4=50Mbit", `bed.yaml:1: ports: "n4" is not a host of this bed: they are n0 to n3`},
		{"ports: n04=50Mbit", `bed.yaml:1: ports: "n04" is not a host`},
		{"hosts: 2\nleaves: 3\nspines: 1", "bed.yaml:2: leaves: 3 is not between 1 and the number of hosts"},
		{"leaves: 2", "spines: 0 is not between 1 and 64; leaves need spines"},
		{"spines: 2", "leaves: 0 is not between 1 and the number of hosts, at most 64; without spines there are no leaves"},
		{"leaves: 2\nspines: 65", "bed.yaml:2: spines: 65 is not between 1 and 64"},
		{"ports: n1", `bed.yaml:1: ports: "n1" is not a list of hosts with their rates`},
		{"ports: n1=1Gbit,n1=2Gbit", "each once"},
		{"ports: n1=1bit", "bed.yaml:1: ports: n1=1bit is not between"},
		{"- hosts", "bed.yaml:1: expected settings"},
	} {
		s, err := LoadSpec(specFile(t, tc.text))
		if err == nil {
			err = s.Complete()
		}
		var invalid *config.InvalidError
		if !errors.As(err, &invalid) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q: %v, want %q", tc.text, err, tc.want)
		}
	}
	s, err := LoadSpec(specFile(t, "hosts: 8\nmtu: 1"))
	if err == nil {
		s.Override(Spec{Hosts: 200})
		err = s.Complete()
	}
	if err == nil || !strings.Contains(err.Error(), "bed.yaml:2: mtu: 1 is") ||
		strings.Contains(err.Error(), "bed.yaml:1:") {
		t.Errorf("%v", err)
	}
	s = Spec{Hosts: 200, MTU: 1}
	var invalid *config.InvalidError
	if err := s.Complete(); !errors.As(err, &invalid) || len(invalid.Problems) != 2 ||
		strings.Contains(err.Error(), ".yaml") {
		t.Errorf("%v", err)
	}
}

// TestBurst: a batch, but never much more time than it takes at 200 Mbit/s, nor less than timers need.
func TestBurst(t *testing.T) {
	for _, tc := range []struct {
		spec Spec
		rate Rate
		want int64
	}{
		{Spec{MTU: 1500}, 1e6, 3028},
		{Spec{MTU: 1500}, 50e6, 17187},
		{Spec{MTU: 1500}, 200e6, 68750},
		{Spec{MTU: 1500}, 1e9, 69632},
		{Spec{MTU: 1500}, 10e9, 312500},
		{Spec{MTU: 9000}, 1e6, 18028},
		{Spec{MTU: 1500, Burst: 5000}, 1e9, 5000},
	} {
		if got := tc.spec.hostBurst(tc.rate); got != tc.want {
			t.Errorf("%+v at %v: %d, want %d", tc.spec, tc.rate, got, tc.want)
		}
	}
}

func TestRateRoundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Rate(rapid.Int64Range(1, 1e12).Draw(t, "rate"))
		if back, err := parseRate(r.String()); err != nil || back != r {
			t.Fatalf("%v is read as %v, %v", r, back, err)
		}
	})
	for _, text := range []string{"", "bit", "NaNbit", "Infbit", "-1Mbit", "0bit", "1e9Gbit", "1 2Mbit", "5"} {
		if r, err := parseRate(text); err == nil {
			t.Errorf("%q is read as %v", text, r)
		}
	}
}

// FuzzRates: lists of rates are read or refused, and nothing else.
func FuzzRates(f *testing.F) {
	f.Add("n2=50Mbit,n5=1.5Gbit")
	f.Add("=,")
	f.Fuzz(func(t *testing.T, text string) {
		var r Rates
		if err := r.UnmarshalText([]byte(text)); err != nil {
			return
		}
		for host, rate := range r {
			if rate < 0 {
				t.Errorf("%s: %d", host, rate)
			}
		}
	})
}
