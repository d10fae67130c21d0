package config

import (
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ringlet/barrier"
	"ringlet/tagnet/core"
	"ringlet/transport"
)

// configWith returns the default configuration after change.
func configWith(change func(*Config)) Completed {
	c := Completed{Default()}
	change(&c.Config)
	return c
}

func TestCompleteFillsIn(t *testing.T) {
	c := Default()
	if err := c.Complete(); err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Nodes, want.RUs, want.BUs = 4, 4, 4
	want.Duration, want.FragmentModel, want.Streams, want.Format = 10*time.Second, "lhcb", "3", "discard"
	want.Slots, want.Debug.LookAhead, want.Next, want.EmptyPlace = 5, 4, nextRoundRobin, "wait"
	want.PhaseSlack, want.Debug.BarrierTimeout = 0, 5*time.Second
	if d := cmp.Diff(want, c); d != "" {
		t.Error(d)
	}
}

func TestDurationOnlyWhereNothingElseEndsTheRun(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Config)
		want   time.Duration
	}{
		{"nothing", func(*Config) {}, 10 * time.Second},
		{"duration", func(c *Config) { c.Duration = time.Second }, time.Second},
		{"events", func(c *Config) { c.Events = 7 }, 0},
		{"events and duration", func(c *Config) { c.Events, c.Duration = 7, time.Minute }, time.Minute},
		{"input", func(c *Config) { c.Input = "x.mdf" }, 0},
		{"looping input", func(c *Config) { c.Input, c.Loop = "x.mdf", true }, 10 * time.Second},
		{"looping input, events", func(c *Config) { c.Input, c.Loop, c.Events = "x.mdf", true, 5 }, 0},
	} {
		got := configWith(c.change)
		if err := got.Complete(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		} else if got.Duration != c.want {
			t.Errorf("%s: duration %v, want %v", c.name, got.Duration, c.want)
		}
	}
}

func TestCarriers(t *testing.T) {
	for name, want := range map[string]struct {
		carrier transport.Carrier
		network string
	}{
		"quic":         {transport.CarrierQUIC, ""},
		"quic-go":      {transport.CarrierQUICGo, ""},
		"stream":       {transport.CarrierStream, ""},
		"local":        {transport.CarrierLocal, ""},
		"auto":         {transport.CarrierAuto, "quic"},
		"local+stream": {transport.CarrierAuto, "stream"},
	} {
		c := configWith(func(c *Config) { c.Transport = name })
		if err := c.Complete(); err != nil {
			t.Fatal(err)
		}
		if by := c.Carriers(); by.Carrier != want.carrier || c.RemoteCarrier() != want.network {
			t.Errorf("%s: %+v, %q between hosts", name, by, c.RemoteCarrier())
		}
	}
}

func TestPull(t *testing.T) {
	for _, c := range []struct {
		slots, window         int // as given
		wantGroup, wantWindow int // in effect
	}{
		{0, 0, 2, 4},
		{1, 0, 1, 4},
		{8, 1, 4, 1},
		{8, 99, 4, 99},
	} {
		got := configWith(func(n *Config) { n.Discipline, n.Slots, n.Debug.PullWindow = "pull", c.slots, c.window })
		for range 2 { // completing again changes nothing
			if err := got.Complete(); err != nil {
				t.Fatalf("%v: %v", c, err)
			}
			if got.PullGroup() != c.wantGroup || got.Debug.PullWindow != c.wantWindow || got.Debug.LookAhead != got.Slots ||
				got.PreGrantedLayout() != nil || got.Next != nextDemand || got.EmptyPlace != "skip" {
				t.Errorf("%v: %+v", c, got)
			}
		}
	}
	for text, want := range map[string]float64{" 2, 0": 1, "2,0:0.25": 0.25, "2,0: 0": 0} {
		of := configWith(func(c *Config) { c.Discipline, c.RoI = "pull", text })
		err := of.Complete()
		if rus, share := of.RoIReadouts(); err != nil || !slices.Equal(rus, []int{2, 0}) || share != want {
			t.Errorf("%q: %v, %v (%v)", text, rus, share, err)
		}
	}
}

func TestNextRule(t *testing.T) {
	c := configWith(func(c *Config) { c.Next = "3, 1,1,2" })
	if err := c.Complete(); err != nil {
		t.Fatal(err)
	}
	if r, err := c.Rules(); err != nil || r.TurnOrder != core.ByRatio || !slices.Equal(r.Ratio, []int{3, 1, 1, 2}) {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestPhases(t *testing.T) {
	for text, want := range map[string]struct {
		end    string
		length time.Duration
		held   barrier.Kind
	}{
		"central": {PhaseEndBarrier, 0, barrier.Central},
		"none":    {PhaseEndBarrier, 0, barrier.None},
		"count":   {phaseEndCount, 0, barrier.None},
		"20ms":    {phaseEndTime, 20 * time.Millisecond, barrier.None},
	} {
		c := configWith(func(c *Config) { c.PhaseEnd = text })
		if err := c.Complete(); err != nil {
			t.Fatal(err)
		}
		if end, length := c.Phases(); end != want.end || length != want.length || c.BarrierKind() != want.held {
			t.Errorf("%s: %s of %v, barrier %v", text, end, length, c.BarrierKind())
		}
	}
	if c := configWith(func(c *Config) { c.Discipline = "free" }); c.Complete() != nil || c.BarrierKind() != barrier.None {
		t.Errorf("a barrier %v where there are no phases", c.BarrierKind())
	}
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Config)
		want   string // part of the sentence
	}{
		{"rus alone", func(c *Config) { c.RUs = 3 }, "give both"},
		{"bus alone", func(c *Config) { c.Nodes, c.BUs = 3, 2 }, "give both"},
		{"too many units", func(c *Config) { c.Nodes, c.RUs, c.BUs = 2, 3, 1 }, "at most one of each"},
		{"idle nodes", func(c *Config) { c.Nodes, c.RUs, c.BUs = 9, 3, 4 }, "would be neither"},
		{"negative", func(c *Config) { c.Nodes = -1 }, "nodes: -1 is not between 0 and"},
		{"loop", func(c *Config) { c.Loop = true }, "no input to loop over"},
		{"input and model", func(c *Config) { c.Input, c.FragmentModel = "x.mdf", "lhcb" },
			"leave out fragment-model or input"},
		{"full and input", func(c *Config) { c.Input, c.Verify = "x.mdf", "full" }, "cannot judge an input"},
		{"format", func(c *Config) { c.Output, c.Format = "x.mdf", "mep" }, "mep does not go with the output x.mdf"},
		{"format the other way", func(c *Config) { c.Output, c.Format = "x.mep", "mdf" }, "mdf does not go"},
		{"as taken without a file", func(c *Config) { c.AsTaken = true }, "leave out as-taken, or give a file"},
		{"as taken at a rate", func(c *Config) { c.AsTaken, c.Rate, c.Input = true, 5, "x" }, "leave out as-taken or rate"},
		{"format alone", func(c *Config) { c.Format = "mdf" }, "needs an output"},
		{"output of no kind", func(c *Config) { c.Output = "events" }, "end it with .mdf or .mep"},
		{"output discarded", func(c *Config) { c.Output, c.Format = "x.mdf", "discard" }, "stay empty"},
		{"udp path", func(c *Config) { c.Output, c.Format = "x.mdf", "udp" }, "has no port"},
		{"udp alone", func(c *Config) { c.Format = "udp" }, "needs an output"},
		{"udp port", func(c *Config) { c.Output = "udp:h" }, "has no port"},
		{"buffer path", func(c *Config) { c.Output, c.Format = "a/b", "buffer" }, "slash"},
		{"buffer query", func(c *Config) { c.Output = "buffer:b?all" }, "asks for something unknown"},
		{"shared and not", func(c *Config) { c.Output = "buffer:a,buffer:a?share" }, "streams 0 and 1 are both"},
		{"two formats", func(c *Config) { c.Output, c.Format = "a/,b/", "mdf" }, "give the format of each before it"},
		{"twice the same", func(c *Config) { c.Output = "a/,b.mdf,mep:a/" }, "streams 0 and 2 are both"},
		{"twice the same directory", func(c *Config) { c.Output = "mdf:a/,mep:a/" }, "streams 0 and 1 are both mep:a/"},
		{"twice the same name", func(c *Config) { c.Output = "buffer:a,discard:,buffer:a" }, "streams 0 and 2 are both"},
		{"nine", func(c *Config) { c.Output = "discard:" + strings.Repeat(",discard:", 8) }, "9 output streams are more"},
		{"a stream of no kind", func(c *Config) { c.Output = "discard:,mdf:events" }, "end it with .mdf or .mep"},
		{"an empty stream", func(c *Config) { c.Output = "a/," }, "is neither"},
		{"rule of one stream", func(c *Config) { c.OutputBy = "all" }, "leave out output-by"},
		{"overwrite", func(c *Config) { c.Input, c.Output = "./x.mdf", "x.mdf" }, "overwritten"},
		{"sources", func(c *Config) { c.Nodes, c.Streams = 300, "300" }, "65536 sources"},
		{"packing", func(c *Config) { c.Packing = 65536 }, "between 1 and 65535"},
		{"fragment", func(c *Config) { c.FragmentSize = -1 }, "between 0 and 1073741824"},
		{"fragments of lhcb", func(c *Config) { c.Packing, c.FragmentSize = 1, 1e9 },
			"fragment-size: a mean of 1000000000 bytes over all sources gives a group of them a mean of 1170000000"},
		{"fragments of poisson", func(c *Config) { c.Packing, c.FragmentSize, c.FragmentModel = 1, 1<<30, "poisson" },
			"make it smaller, or use fragment-model constant"},
		{"rate", func(c *Config) { c.Rate = math.NaN() }, "not a rate"},
		{"transport", func(c *Config) { c.Transport = "pigeon" },
			`"pigeon" is not one of quic, quic-go, stream, local, auto`},
		{"network local", func(c *Config) { c.Transport = "local+local" }, `"local+local" is not one of quic, quic-go`},
		{"drop in memory", func(c *Config) { c.Transport, c.Debug.Drop = "local", 0.1 }, "debug.drop: the carrier local"},
		{"barrier", func(c *Config) { c.PhaseEnd = "wall" },
			`phase-end: "wall" is neither a barrier (none, central, tournament, dissemination)`},
		{"barrier time", func(c *Config) { c.Debug.BarrierTimeout = -1 }, "not a time"},
		{"duration", func(c *Config) { c.Duration = -1 }, "negative"},
		{"prepared and input", func(c *Config) { c.Input, c.Prepared = "x.mdf", 3 }, "an input is not generated"},
		{"prepared and full", func(c *Config) { c.Verify, c.Prepared = "full", 3 }, "under other event ids"},
		{"prepared", func(c *Config) { c.Prepared = -1 }, "prepared: -1"},
		{"look-ahead", func(c *Config) { c.Debug.LookAhead = 65536 }, "look-ahead: 65536"},
		{"drop", func(c *Config) { c.Debug.Drop = 0.6 }, "debug.drop: 0.6 is not between"},
		{"discipline", func(c *Config) { c.Discipline = "army" }, `discipline: "army" is not one of`},
		{"larger than ever", func(c *Config) {
			c.Packing, c.FragmentSize, c.Debug.LargeEvery, c.Debug.LargeFactor = 1, 2<<20, 9, 1000
		},
			"fragment-size: 1000 times as large"},
		{"larger of nobody", func(c *Config) { c.Debug.LargeEvery, c.Debug.LargeRU = 9, 4 },
			"debug.large-ru: there is no readout unit 4 among 4"},
		{"larger records", func(c *Config) { c.Input, c.Debug.LargeEvery = "x.mdf", 9 }, "have the sizes that were recorded"},
		{"larger again", func(c *Config) { c.Prepared, c.Debug.LargeEvery = 3, 9 }, "prepared blocks come again"},
		{"a large ring", func(c *Config) { c.Discipline, c.Nodes, c.Streams = "tagring", 1025, "1" },
			"rus: 1025 readout units cannot pass tags"},
		{"phases of free", func(c *Config) { c.Discipline, c.PhaseEnd = "free", "count" },
			"phase-end: the discipline free has no phases"},
		{"slack, no barrier", func(c *Config) { c.PhaseEnd, c.PhaseSlack = "20ms", 1 }, "phase-slack: no barrier holds"},
		{"no window", func(c *Config) { c.PhaseEnd = "0s" }, "phase-end: 0s is not the length of a phase"},
		{"seats of free", func(c *Config) { c.Discipline, c.Seats = "free", "0,1,2,3" }, "seats: the discipline free"},
		{"seat of nobody", func(c *Config) { c.Seats = "0,1,2,4" }, "seats: there is no rank 4 among 4 nodes"},
		{"seat twice", func(c *Config) { c.Seats = "0,1,-,1,2,3" }, "seats: rank 1 sits twice"},
		{"no seat", func(c *Config) { c.Seats = "0,-,2,3" }, "seats: rank 1 has no seat"},
		{"seat", func(c *Config) { c.Seats = "0,x" }, `seats: "x", the entry number 2`},
		{"next", func(c *Config) { c.Next = "mine" }, `next: "mine" is neither round-robin, nor demand, nor the weights`},
		{"ratio of three", func(c *Config) { c.Next = "1,2,3" }, "the ratio has 3 weights for 4 builder units"},
		{"ratio of zero", func(c *Config) { c.Next = "1,0,3,4" }, "the weight of builder unit 1 is 0"},
		{"nobody busy", func(c *Config) { c.BusyGroup = "skip" }, "busy-group: skip would not be used"},
		{"group of strangers", func(c *Config) { c.Groups = "0-1;2-4" }, "group 1 names builder unit 4: there are 4"},
		{"group left out", func(c *Config) { c.Groups = "0-1;2" }, "builder unit 3 is in no group"},
		{"in two partitions", func(c *Config) { c.Partitions = "0-2;2-3" },
			"builder unit 2 is named twice, the second time in partition 1"},
		{"torn group", func(c *Config) { c.Groups, c.Partitions = "0-1;2-3", "0;1-3" },
			"next, groups, partitions: group 0 lies in two partitions"},
		{"no sets", func(c *Config) { c.Groups = "0-1;;2-3" }, "groups: an index is missing"},
		{"window of free", func(c *Config) { c.Discipline, c.Debug.PullWindow = "free", 2 },
			"pull-window: only builder units"},
		{"interest of shift", func(c *Config) { c.RoI = "0" }, "roi: only builder units"},
		{"turn of push", func(c *Config) { c.Discipline, c.Next = "push", "demand" }, "next: with the discipline push"},
		{"place of push", func(c *Config) { c.Discipline, c.EmptyPlace = "push", "skip" },
			"empty-place: with the discipline push"},
		{"live push", func(c *Config) { c.Discipline, c.Input = "push", "tcp:127.0.0.1:0" },
			"discipline: push assigns MEPs before"},
		{"pull window", func(c *Config) { c.Discipline, c.Debug.PullWindow = "pull", -1 }, "pull-window: -1 is less than 1"},
		{"interest", func(c *Config) { c.Discipline, c.RoI = "pull", "0,x" },
			`roi: "x" is neither an index nor a range of indices`},
		{"interest of nobody", func(c *Config) { c.Discipline, c.RoI = "pull", "4" },
			"roi: there is no readout unit 4 among 4"},
		{"interest twice", func(c *Config) { c.Discipline, c.RoI = "pull", "1,1" }, "roi: readout unit 1 is named twice"},
		{"interest in all", func(c *Config) { c.Discipline, c.RoI = "pull", "0,1,2,3" }, "roi: all readout units are named"},
		{"share", func(c *Config) { c.Discipline, c.RoI = "pull", "0:1.5" }, `roi: "1.5" is not a share`},
		{"share of nothing", func(c *Config) { c.Discipline, c.RoI = "pull", ":0.5" }, `roi: ":0.5" names no readout unit`},
		{"discard of one", func(c *Config) { c.Overload, c.Slots = "discard", 1 }, "overload: discard needs a place"},
		{"discard undecided", func(c *Config) { c.Overload, c.Discipline, c.RoI = "discard", "pull", "0" },
			"overload: discard does not go with a region"},
		{"suspended stranger", func(c *Config) { c.Debug.SuspendBUs = "2-4" },
			"debug.suspend-bus: there is no builder unit 4 among 4"},
		{"suspended twice", func(c *Config) { c.Debug.SuspendBUs = "0-2,1" },
			"debug.suspend-bus: builder unit 1 is named twice"},
		{"suspended sets", func(c *Config) { c.Debug.SuspendBUs = "0;1" }, "debug.suspend-bus: \"0;1\" is not one list"},
		{"suspended what", func(c *Config) { c.Debug.SuspendBUs = "some" },
			"debug.suspend-bus: \"some\" is neither an index"},
		{"suspended for ever", func(c *Config) { c.Debug.SuspendBUs, c.Debug.SuspendFor = "all", 2*time.Second },
			"debug.suspend-for: 2s is not between 0 and the 2s"},
		{"suspended nobody", func(c *Config) { c.Debug.SuspendFor = time.Second }, "debug.suspend-for: no builder unit"},
		{"every nobody", func(c *Config) { c.Debug.SuspendEvery = time.Second }, "debug.suspend-every: no builder unit"},
		{"slots", func(c *Config) { c.Slots = -1 }, "slots: -1"},
		{"slot of less than nothing", func(c *Config) { c.SlotSize = -1 }, "slot-size: -1 is negative"},
		{"more units than sources", func(c *Config) { c.RUs, c.BUs = 1, 65536 },
			"nodes: 65537 nodes are more than the 65536"},
		{"nodes beyond all memory", func(c *Config) { c.Nodes = math.MaxInt }, "is not between 0 and 65536"},
		{"readout units beyond all memory", func(c *Config) { c.RUs = math.MaxInt }, "rus: "},
		{"builder units beyond all memory", func(c *Config) { c.BUs = 1 << 31 }, "bus: 2147483648 is not between"},
		{"MFPs too large", func(c *Config) { c.FragmentModel, c.FragmentSize, c.Packing = "constant", 65535, 65535 },
			"packing: 65535 fragments of 65535 bytes make an MFP of"},
		{"MEPs too large", func(c *Config) { c.FragmentModel, c.FragmentSize, c.Packing = "constant", 65535, 60000 },
			"packing: a MEP of 12 sources with 60000 fragments each"},
		{"small segments", func(c *Config) { c.SegmentSize = 1 }, "segment-size: 1 is less than 64KiB"},
		{"short segments", func(c *Config) { c.SegmentTime = time.Millisecond }, "segment-time: 1ms is less than 1s"},
		{"partition of strangers", func(c *Config) { c.Partitions = "0-1;2-x" }, "partitions: "},
		{"memory", func(c *Config) { c.NodeMemory = -1 }, "node-memory: -1 is negative"},
		{"loss of readout units", func(c *Config) { c.ReadoutLoss = "some" }, "readout-loss: "},
		{"loss of builder units", func(c *Config) { c.BuilderLoss = "some" }, "builder-loss: "},
		{"silence", func(c *Config) { c.Silence = time.Second }, "silence: 1s is not between 2s and 12s"},
		{"loss of the control", func(c *Config) { c.ControlLoss = -1 }, "control-loss: -1ns is negative"},
		{"slot too small", func(c *Config) { c.SlotSize = 1 << 20 }, "slot-size: a MEP of 12 sources"},
		{"slot, constant", func(c *Config) { c.FragmentModel, c.SlotSize = "constant", 6_500_000 },
			"more than a slot of 6500000"},
	} {
		n := configWith(c.change)
		before := n
		err := n.Validate()
		var invalid *InvalidError
		if !errors.As(err, &invalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one saying %q", c.name, err, c.want)
		} else if len(invalid.Problems) != 1 {
			t.Errorf("%s: %d problems: %v", c.name, len(invalid.Problems), err)
		}
		if n.Rate == n.Rate && n != before {
			t.Errorf("%s: Validate changed the configuration", c.name)
		}
	}
}

func TestAllProblemsAtOnce(t *testing.T) {
	c := configWith(func(c *Config) { c.Loop, c.Packing, c.Verify, c.RUs = true, 0, "x", 2 })
	var invalid *InvalidError
	if !errors.As(c.Complete(), &invalid) {
		t.Fatal("accepted")
	}
	var keys []string
	for _, p := range invalid.Problems {
		keys = append(keys, p.Key)
	}
	if d := cmp.Diff([]string{"verify", "packing", "rus, bus", "loop"}, keys); d != "" {
		t.Errorf("%s\n%v", d, invalid)
	}
	if !strings.HasPrefix(invalid.Error(), "4 problems with the configuration:\n  verify: ") {
		t.Error(invalid)
	}
}

func TestEffectiveReadsBack(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"default":   func(*Config) {},
		"replay":    func(c *Config) { c.Input, c.Loop, c.Output = "a b.mdf", true, "out/" },
		"sizes":     func(c *Config) { c.SlotSize, c.Rate, c.Events = 1<<30, 1.25e6, 1<<63 },
		"unfolded":  func(c *Config) { c.RUs, c.BUs, c.Debug.Drop = 3, 2, 0.01 },
		"carriers":  func(c *Config) { c.Transport = "local+quic-go" },
		"odd names": func(c *Config) { c.Output = "yes: #.mep" },
	} {
		c := configWith(change)
		if err := c.Complete(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		back, err := readText("effective", c.Effective())
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, c.Effective())
			continue
		}
		if err := back.Complete(); err != nil {
			t.Errorf("%s: completed again: %v", name, err)
		}
		if d := cmp.Diff(c.Config, back); d != "" {
			t.Errorf("%s: %s", name, d)
		}
		if c.Hash() != back.Hash() || len(c.Hash()) != 64 {
			t.Errorf("%s: hashes %s and %s", name, c.Hash(), back.Hash())
		}
	}
	a, b := Default(), configWith(func(c *Config) { c.Seed = 2 })
	if a.Hash() == b.Hash() {
		t.Error("different settings have the same hash")
	}
}

func TestMEPSize(t *testing.T) {
	c := configWith(func(c *Config) {
		c.Nodes, c.Streams, c.Packing, c.FragmentSize, c.FragmentModel = 1, "1", 4, 5, "constant"
	})
	if err := c.Complete(); err != nil {
		t.Fatal(err)
	}
	// MEP header 8 + 4 + 4; MFP header 20 + 4 + 8; 4 fragments of 5 bytes, padded to 8.
	if low, high := c.MEPSize(3); low != 16+32+4*8 || high != low {
		t.Errorf("constant: %d to %d", low, high)
	}
	c.FragmentModel = "poisson"
	if low, high := c.MEPSize(3); low > 16+32+4*5 || high < 16+32+4*8 {
		t.Errorf("poisson: %d to %d does not hold the mean", low, high)
	}
}

func TestEffectiveIsWhatTheManualShows(t *testing.T) {
	c := Default()
	if err := c.Complete(); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/default.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(c.Effective())); d != "" {
		t.Error(d)
	}
}

func TestOverload(t *testing.T) {
	complete := func(change func(*Config)) Completed {
		c := configWith(change)
		if err := c.Complete(); err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := complete(func(c *Config) {
		c.Overload, c.Slots, c.Debug.LookAhead, c.Debug.SuspendBUs = OverloadDiscard, 8, 6, "3,1"
	})
	if c.MaxOutputBacklog() != 3 || c.CreditPerBU() != 6 {
		t.Errorf("%d may wait of %d", c.MaxOutputBacklog(), c.CreditPerBU())
	}
	if d := c.Debug; !slices.Equal(c.SuspendedBUs(), []int{3, 1}) || d.SuspendEvery != 2*time.Second ||
		d.SuspendFor != 100*time.Millisecond {
		t.Errorf("%v are suspended every %v for %v", c.SuspendedBUs(), d.SuspendEvery, d.SuspendFor)
	}
	c = complete(func(c *Config) { c.Debug.SuspendBUs = suspendAll })
	if c.MaxOutputBacklog() != 0 || !slices.Equal(c.SuspendedBUs(), []int{0, 1, 2, 3}) {
		t.Errorf("%v are suspended, %d may wait", c.SuspendedBUs(), c.MaxOutputBacklog())
	}
	if c = complete(func(*Config) {}); c.SuspendedBUs() != nil {
		t.Errorf("%v are suspended", c.SuspendedBUs())
	}
}
