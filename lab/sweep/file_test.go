package sweep

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ringlet/event/placing"
	"ringlet/node/config"
)

const barriers = `# A comment.
name: barriers
repeat: 2
seed: 7
fixed: {duration: 1s, packing: 100}
vary:
  nodes: [2, 4]
  phase-end: [none, central]
`

func TestSweepIsTheProductOfItsLists(t *testing.T) {
	s := parse(t, barriers)
	var ids []string
	for _, c := range s.Cells {
		ids = append(ids, c.ID)
	}
	want := []string{
		"barriers nodes=2 phase-end=none", "barriers nodes=2 phase-end=central", "barriers nodes=4 phase-end=none",
		"barriers nodes=4 phase-end=central",
	}
	if diff := cmp.Diff(want, ids); diff != "" {
		t.Error(diff)
	}
	if got := strings.Join(s.Cells[3].Args,
		" "); got != "run --json --duration=1s --packing=100 --nodes=4 --phase-end=central" {
		t.Error(got)
	}
	if s.Repeat != 2 || s.Seed != 7 || s.ReferenceEvery != defaultEvery || len(s.Hash) != 64 {
		t.Errorf("%+v", s)
	}
}

func TestSeriesHaveWhatTheTopSays(t *testing.T) {
	s := parse(t, `name: two
testbed: {hosts: 8, rate: 200Mbit, at: ["1s:cut:n1", "2s:restore:n1"]}
fixed: {nodes: 8, packing: 50, debug: {drop: 0.01}}
vary: {slots: [2, 4]}
series:
  - name: a
  - name: b
    testbed: {rate: 1Gbit}
    fixed: {slots: 3}
    vary: {packing: [1, 2], testbed.queue: [16KiB]}
  - name: c
    control: {certs: keys}
    port-rate: 10Gbit
    fixed: {slots: 3, debug.drop: 0}
`)
	var lines []string
	for _, c := range s.Cells {
		lines = append(lines, strings.Join(c.Args, " "))
	}
	const at = " --at=1s:cut:n1 --at=2s:restore:n1"
	want := []string{
		"testbed run --hosts=8 --rate=200Mbit" + at + " -- --json --nodes=8 --packing=50 --debug-drop=0.01 --slots=2",
		"testbed run --hosts=8 --rate=200Mbit" + at + " -- --json --nodes=8 --packing=50 --debug-drop=0.01 --slots=4",
		"testbed run --hosts=8" + at +
			" --rate=1Gbit --queue=16KiB -- --json --nodes=8 --debug-drop=0.01 --slots=3 --packing=1",
		"testbed run --hosts=8" + at +
			" --rate=1Gbit --queue=16KiB -- --json --nodes=8 --debug-drop=0.01 --slots=3 --packing=2",
		"control --once --certs=keys --json --nodes=8 --packing=50 --slots=3 --debug-drop=0",
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Error(diff)
	}
	if s.Cells[0].BedSummary.PortBps != 0 || s.Cells[4].BedSummary.PortBps != 10e9 {
		t.Errorf("%+v, %+v", s.Cells[0].BedSummary, s.Cells[4].BedSummary)
	}
}

// A share of a port's rate becomes a rate of events: what crosses the port is that share.
func TestLoadBecomesARate(t *testing.T) {
	s := parse(t, `name: load
port-rate: 1Gbit
fixed: {nodes: 4, packing: 1000, fragment-model: constant, fragment-size: 100, streams: 2}
vary: {load: [0.5, 1]}
`)
	// 4 nodes × 2 sources × 100 B, and the headers; of an event 3/4 cross ports, a quarter of that each port.
	size := s.Cells[0].eventBits()
	if size < 6400 || size > 8000 {
		t.Fatalf("an event of %g bits", size)
	}
	for i, load := range []float64{0.5, 1} {
		c := s.Cells[i]
		if got := c.Config.Rate * size * 3 / 16; math.Abs(got/(load*1e9)-1) > 0.001 {
			t.Errorf("load %g: %g bit/s cross a port", load, got)
		}
		if !slices.ContainsFunc(c.Args, func(a string) bool { return strings.HasPrefix(a, "--rate=") }) {
			t.Errorf("%v", c.Args)
		}
	}
}

// Parts that are larger now and then are a little of the mean, and not of the bounds that slots are made for.
func TestLargePartsAreAShareOfTheMean(t *testing.T) {
	s := parse(t, "name: x\nseries:\n  - name: a\n  - name: b\n    fixed: {debug: {large-every: 100, large-factor: 5}}\n")
	if got := s.Cells[1].eventBits() / s.Cells[0].eventBits(); math.Abs(got-1.01) > 1e-9 { // 4 more of one of 4, in 100
		t.Errorf("%g times as large", got)
	}
}

func TestPortFlows(t *testing.T) {
	for _, tc := range []struct {
		nodes, rus, bus, hosts int
		cross, all             float64
	}{
		{8, 8, 8, 8, 7. / 64, 1. / 8},
		{1, 1, 1, 1, 0, 1},
		{2, 1, 1, 2, 1, 1},            // a pair: everything crosses
		{5, 4, 1, 5, 1, 1},            // one builder takes it all
		{5, 1, 4, 5, 1, 1},            // one reader gives it all
		{8, 8, 8, 4, 3. / 16, 1. / 4}, // two nodes to a host: what they send to each other crosses no port
		{3, 3, 3, 8, 2. / 9, 1. / 3},  // more hosts than nodes
		{0, 0, 0, 0, 0, 0},
	} {
		got := computePortShares(tc.nodes, placing.EvenDivision(tc.rus, 3), tc.bus, tc.hosts)
		if math.Abs(got.crossing-tc.cross) > 1e-9 || math.Abs(got.total-tc.all) > 1e-9 {
			t.Errorf("%d nodes, %d RUs, %d BUs on %d hosts: %+v", tc.nodes, tc.rus, tc.bus, tc.hosts, got)
		}
	}
	// Five of eight sources are on host 0, which sends a third of them to itself.
	if got := computePortShares(3, placing.NewDivision(5, 2, 1), 3, 3); math.Abs(got.crossing-10./24) > 1e-9 ||
		got.total != 5./8 {
		t.Errorf("uneven: %+v", got)
	}
	s := parse(t, "name: x\nfixed: {nodes: 3, rus: 3, bus: 1, streams: [5, 2, 1]}\n")
	if got := s.Cells[0].CrossingShare(); math.Abs(got-7./8) > 1e-9 { // the last node has the builder unit and one source
		t.Errorf("%g crosses", got)
	}
}

func TestBadFilesAreRefusedWithLineAndSentence(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"", "s.yaml:1: name: results are filed under it"},
		{"name: x/y\n", "s.yaml:1: name: results are filed under it"},
		{"nme: x\n", `s.yaml:1: nme: there is no such setting; the nearest one is "name"`},
		{"name: x\nrepeat: 0\n", "s.yaml:2: repeat: 0 is not between 1 and 1000"},
		{"name: x\nseed: -1\n", "s.yaml:2: seed: "},
		{"name: x\nvary: [1]\n", "s.yaml:2: vary: expected settings"},
		{"name: x\nvary:\n  nodes: 3\n", "s.yaml:3: nodes: expected a list of values to vary over"},
		{"name: x\nvary:\n  nodes: []\n", "s.yaml:3: nodes: expected a list of values to vary over"},
		{"name: x\nvary:\n  nodes: [2, two]\n", `s.yaml:3: nodes: "two" is not a whole number`},
		{"name: x\nvary:\n  dicipline: [free]\n",
			`s.yaml:3: dicipline: there is no such setting; the nearest one is "discipline"`},
		{"name: x\nfixed:\n  verify: wall\n", `s.yaml:3: verify: "wall" is not one of off`},
		{"name: x\nfixed:\n  packing: 1\n  packing: 2\n", "s.yaml:4: packing: is given twice, first on line 3"},
		{"name: x\nfixed:\n  debug.drop: 0.1\n  debug: {drop: 0.1}\n",
			"s.yaml:4: debug.drop: is given twice, first on line 3"},
		{"name: x\nfixed: {packing: 1}\nvary:\n  packing: [1, 2]\n", "s.yaml:4: packing: is varied here and fixed on line 2"},
		{"name: x\nvary:\n  packing: [1, 1]\n", `x: has the combination "x packing=1" twice`},
		{"name: x\nvary:\n  packing: [1, 70000]\n",
			`s.yaml:3: packing: 70000 is not between 1 and 65535 (the run "x packing=70000")`},
		{"name: x\nfixed: {json: true}\n", "s.yaml:2: json: is not for a sweep to give"},
		{"name: x\nvary: {load: [0.5]}\n", "s.yaml:2: load: is a share of a port's rate, and none is known"},
		{"name: x\nport-rate: fast\n", `s.yaml:2: port-rate: rate "fast" is not a number with a unit`},
		{"name: x\nport-rate: 1Gbit\nvary: {load: [0]}\n", `s.yaml:3: load: "0" is not a share`},
		{"name: x\nport-rate: 1Gbit\nfixed: {rate: 5}\nvary: {load: [1]}\n", "s.yaml:3: rate: is given beside load"},
		{"name: x\ntestbed: {hosts: 2}\ncontrol: {certs: a}\n",
			"s.yaml:3: control: runs are in a test bed or on nodes that are there"},
		{"name: x\nseries: []\n", "s.yaml:2: series: has none"},
		{"name: x\nseries:\n  - fixed: {packing: 1}\n", "s.yaml:3: series[0].name: a series is called by it"},
		{"name: x\nseries:\n  - name: a\n  - name: a\n", `s.yaml:4: series[1].name: another series is called "a" too`},
		{"name: x\nvary: {nodes: &a [1], bus: *a}\n", "s.yaml:2: bus: has no value of its own"},
		{"name: x\nvary: {packing: [" + strings.Repeat("1,", 5) + "1], nodes: [~]}\n", `nodes: has no value`},
		{"name: x\nreferences: [tcp, tcp]\n", `s.yaml:2: references[1]: "tcp" is named twice`},
		{"name: x\nbounds:\n  - {of: x}\n", "s.yaml:3: bounds[0]: give one of least and most"},
		{"name: x\nbounds:\n  - {of: x, least: 1, most: 2}\n", "s.yaml:3: bounds[0]: give one of least and most"},
		{"name: x\nbounds:\n  - {of: x, least: .nan}\n", `s.yaml:3: bounds[0].least: ".nan" is not a number`},
		{"name: x\nbounds:\n  - {of: y, least: 1}\n", `s.yaml:3: bounds[0].of: "y" is no run, no series and no reference`},
		{"name: x\nbounds:\n  - {of: x, over: [tcp], least: 1}\n",
			`s.yaml:3: bounds[0].over[0]: "tcp" has nothing to compare "x" with`},
		{"name: x\nvary: {seed: [" + numbers(50) + "], packing: [" + numbers(50) + "]}\n",
			"x: comes to more than 2000 combinations"},
	} {
		s, err := Parse("s.yaml", []byte(tc.text), nil)
		var invalid *config.InvalidError
		if !errors.As(err, &invalid) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q:\n got %v (%v)\nwant %s", tc.text, err, s != nil, tc.want)
		}
	}
}

// numbers writes 1 to n.
func numbers(n int) string {
	var out []string
	for i := range n {
		out = append(out, strconv.Itoa(i+1))
	}
	return strings.Join(out, ", ")
}

func TestTheProgramIsAskedAboutEachCommandLine(t *testing.T) {
	var checked []string
	text := "name: x\ntestbed:\n  hots: 2\nvary: {nodes: [2, 3]}\n"
	_, err := Parse("s.yaml", []byte(text), func(args []string) (BedSummary, error) {
		checked = append(checked, strings.Join(args, " "))
		if len(checked) == 2 {
			return BedSummary{}, errors.New("unknown flag --hots")
		}
		return BedSummary{}, nil
	})
	if err == nil || !strings.Contains(err.Error(),
		"s.yaml:3: testbed.hots: unknown flag --hots (the command line is testbed run --hots=2 --hosts=3 -- --json "+
			"--nodes=3)") || len(checked) != 2 {
		t.Errorf("%v, asked %q", err, checked)
	}
	// What it says of the place decides what a share of a port is.
	s, err := Parse("s.yaml", []byte("name: x\nfixed: {nodes: 4}\nvary: {load: [0.5]}\n"),
		func([]string) (BedSummary, error) { return BedSummary{Hosts: 2, PortBps: 1e9}, nil })
	if err != nil {
		t.Fatal(err)
	}
	if c := s.Cells[0]; c.hosts() != 2 || math.Abs(c.Config.Rate*c.eventBits()/4/0.5e9-1) > 0.001 {
		t.Errorf("%+v, %g events/s", c.BedSummary, c.Config.Rate)
	}
}

// What the program refuses stands where the file gives the flag that it names.
func TestRefusalsNameTheLineOfTheFlag(t *testing.T) {
	text := "name: x\ntestbed:\n  hosts: 8\n  at: [1s:cut:n9]\n  rate: 20Mbit\nfixed: {rate: 5, debug: {drop: " +
		"0.1}}\nvary:\n  testbed.queue: [8KiB, 1KiB]\n"
	for says, want := range map[string]string{
		`--rate=RATE: rate "fast" is not a number`:                        "s.yaml:5: testbed.rate: --rate=",
		"rate: 1bit is not between":                                       "s.yaml:5: testbed.rate: rate: 1bit",
		"at: n9 is no host":                                               "s.yaml:4: testbed.at: at: n9",
		"queue: 1.0KiB is not between two full packets":                   "s.yaml:8: testbed.queue: queue: 1.0KiB",
		"2 problems with the configuration:\n  hosts: …":                  "s.yaml:3: x: 2 problems",
		"--debug-drop=0.1: is nothing for a test bed":                     "s.yaml:6: debug.drop: --debug-drop",
		"unknown flag --hots, did you mean \"--hosts\"?":                  "s.yaml:3: testbed.hosts: unknown flag",
		"the machine has no hosts, and --rates are none of its --matters": "s.yaml:3: x: the machine",
	} {
		_, err := Parse("s.yaml", []byte(text), func([]string) (BedSummary, error) { return BedSummary{}, errors.New(says) })
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q:\n got %v\nwant %s", says, err, want)
		}
	}
}

func TestOrderIsRandomInEachRound(t *testing.T) {
	s := parse(t, "name: x\nvary: {packing: ["+numbers(20)+"]}\n")
	order := s.order(3)
	if len(order) != 60 || !slices.Equal(order, s.order(3)) {
		t.Fatalf("%d turns, or another order the second time", len(order))
	}
	sorted := 0
	for round := range 3 {
		seen := map[string]bool{}
		for i, turn := range order[20*round : 20*round+20] {
			seen[turn.Cell.ID] = true
			if turn.Round != round+1 {
				t.Errorf("turn %d is of round %d", 20*round+i, turn.Round)
			}
			if turn.Cell == &s.Cells[i] {
				sorted++
			}
		}
		if len(seen) != 20 {
			t.Errorf("round %d has %d of 20 cells", round, len(seen))
		}
	}
	if sorted > 20 {
		t.Errorf("%d of 60 runs are where the file has them", sorted)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(barriers)
	f.Add("name: x\ntestbed: {hosts: 2, at: [a, b]}\nvary: {load: [1], debug: {drop: [0, 0.1]}}\nseries:\n  - name: " +
		"y\n    port-rate: 1Gbit\n")
	f.Add("name: x\nvary: {nodes: &a [1], bus: *a}\n")
	f.Add("{}")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse("s.yaml", []byte(text), nil)
		var invalid *config.InvalidError
		switch {
		case err != nil && !errors.As(err, &invalid):
			t.Errorf("an error of another kind: %v", err)
		case err != nil:
			return
		case len(s.Cells) == 0:
			t.Error("a sweep without a run")
		}
		for _, c := range s.Cells {
			again := c.Config
			if err := again.Complete(); err != nil {
				t.Errorf("%s: %v", c.ID, err)
			}
		}
	})
}
