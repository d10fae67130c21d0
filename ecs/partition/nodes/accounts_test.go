package nodes

import (
	"slices"
	"strings"
	"testing"

	ecsrun "ringlet/ecs/run"
	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
	"ringlet/tagnet/core"
)

// A run of 2 readout units with 2 and 4 sources, 10 MEPs of 100 events, one chunk lost and sent again, 2 MEPs read
// ahead by each.
func balanced() (*Report, *core.Registers, map[string]uint64) {
	r := &Report{
		RUs:             2,
		BUs:             2,
		Division:        []int{2, 4},
		EventsTriggered: 1000,
		EventsBuilt:     1000,
		MFPsRead:        72,
		MFPsPlaced:      60,
		ChunksSent:      501,
		ChunksResent:    1,
		ChunksPlaced:    500,
		ChunksLost:      1,
		Output:          "x.mep",
		OutputEvents:    1000,
		EndCause:        ecsrun.EndDuration,
	}
	reg := &core.Registers{Counters: &core.Counters{
		Issued:       10,
		Built:        10,
		EventsIssued: 1000,
		EventsBuilt:  1000,
		Refused:      make([]uint64, 1+max(core.NotNow, core.WrongEvents)),
	}}
	sums := map[string]uint64{
		"bu.meps_built": 10, "bu.mfps_placed": 60, sumMFPsAhead: 12, "ru.tokens": 20, "ru.writes": 20,
		"ru.bytes_written": 4096, "link.bytes_placed": 4096,
	}
	return r, reg, sums
}

// sumMFPsAhead stands among the sums of a test for what no node counts: MFPs that were read, and never asked for.
const sumMFPsAhead = "mfps_ahead"

func countsIn(sums map[string]uint64) counts {
	c := countsOf(sums)
	c.MFPsAhead = sums[sumMFPsAhead]
	return c
}

func failing(checks []Check) (names []string) {
	for _, c := range checks {
		if !c.OK {
			names = append(names, c.Name)
		}
	}
	return names
}

func TestAccountsBalance(t *testing.T) {
	r, reg, sums := balanced()
	all := append(schedulerChecks(r, reg), unitChecks(r, reg, countsIn(sums))...)
	if bad := failing(all); bad != nil {
		t.Errorf("do not balance: %v", bad)
	}
	if len(all) != 14 {
		t.Errorf("%d checks", len(all))
	}
}

// Whatever is off by one is found, by the check that is there for it.
func TestAccountsFindWhatIsOff(t *testing.T) {
	type figures struct {
		r    *Report
		reg  *core.Registers
		sums map[string]uint64
	}
	for name, off := range map[string]struct {
		by    func(b figures)
		check string
	}{
		"an event without outcome":   {func(b figures) { b.r.EventsBuilt-- }, "events triggered"},
		"an event twice":             {func(b figures) { b.r.EventsDiscarded++ }, "events triggered"},
		"a MEP without outcome":      {func(b figures) { b.reg.Counters.Issued++ }, "MEPs issued"},
		"a MEP built in secret":      {func(b figures) { b.sums["bu.meps_built"]++ }, "MEPs built"},
		"a MEP discarded in secret":  {func(b figures) { b.sums["bu.meps_discarded"]++ }, "MEPs discarded"},
		"an MFP vanished":            {func(b figures) { b.sums["bu.mfps_placed"]-- }, "MFPs read"},
		"an MFP retained for ever":   {func(b figures) { b.sums[sumMFPsAhead]++ }, "MFPs read"},
		"a token lost":               {func(b figures) { b.sums["ru.tokens"]-- }, "tokens that came"},
		"a write without completion": {func(b figures) { b.sums["ru.writes"]-- }, "writes completed"},
		"a byte placed twice":        {func(b figures) { b.sums["link.bytes_placed"]++ }, "bytes written"},
		"a chunk placed twice":       {func(b figures) { b.r.ChunksPlaced++ }, "distinct chunks"},
		"a chunk never placed":       {func(b figures) { b.r.ChunksSent++ }, "distinct chunks"},
		"a transaction open":         {func(b figures) { b.sums["link.tx_used"]++ }, "open transactions"},
		"a transfer open":            {func(b figures) { b.sums["ru.open"]++ }, "open transactions"},
		"a rejected MEP lost":        {func(b figures) { b.reg.Counters.Rejected++ }, "MFPs of rejected"},
		"a part asked for in secret": {func(b figures) { b.sums["ru.unasked"]++ }, "tokens never asked for"},
		"a write refused":            {func(b figures) { b.sums["node.writes_refused"]++ }, "messages, writes"},
		"a signal not understood":    {func(b figures) { b.sums["node.bad_signals"]++ }, "messages, writes"},
		"a stray placement":          {func(b figures) { b.sums["bu.strays"]++ }, "messages, writes"},
		"feedback refused":           {func(b figures) { b.reg.Counters.Refused[core.WrongEvents]++ }, "messages, writes"},
		"two in a group": {func(b figures) { b.reg.Groups = []*tagnetv1.GroupRegister{{Most: 1}, {Most: 2}} },
			"groups that ever"},
		"an event not written": {func(b figures) { b.r.OutputEvents-- }, "events built = events in the output"},
	} {
		r, reg, sums := balanced()
		off.by(figures{r, reg, sums})
		bad := failing(append(schedulerChecks(r, reg), unitChecks(r, reg, countsIn(sums))...))
		if !slices.ContainsFunc(bad, func(s string) bool { return strings.HasPrefix(s, off.check) }) {
			t.Errorf("%s: found by %v, not by %q", name, bad, off.check)
		}
	}
}

// Writes of results to a decision unit that stood still as the run ended have no outcome, and are no mistake; another
// transaction is one.
func TestAccountsWithResultsUnderWay(t *testing.T) {
	r, reg, sums := balanced()
	sums["link.tx_used"], sums["bu.result_writes_left"] = 8, 8
	if bad := failing(unitChecks(r, reg, countsIn(sums))); len(bad) > 0 {
		t.Errorf("writes of results: %v", bad)
	}
	sums["link.tx_used"]++
	bad := failing(unitChecks(r, reg, countsIn(sums)))
	if len(bad) != 1 || !strings.HasPrefix(bad[0], "open transactions") {
		t.Errorf("one more: %v", bad)
	}
}

func TestAccountsWithOtherOutcomes(t *testing.T) {
	r, reg, sums := balanced()
	// One MEP more was discarded, one more abandoned: their MFPs were read and not placed in a complete MEP.
	reg.Counters.Issued, reg.Counters.Discarded, reg.Counters.Abandoned = 12, 1, 1
	r.EventsTriggered, r.EventsDiscarded, r.EventsAbandoned = 1200, 100, 100
	sums["bu.meps_discarded"] = 1
	r.MFPsRead += 12
	sums["ru.tokens"], sums["ru.writes"] = 24, 24
	if bad := failing(append(schedulerChecks(r, reg), unitChecks(r, reg, countsIn(sums))...)); bad != nil {
		t.Errorf("do not balance: %v", bad)
	}
	// Nothing is said of an output where there is none.
	r.Output, r.OutputEvents = "", 0
	if bad := failing(unitChecks(r, reg, countsIn(sums))); bad != nil {
		t.Errorf("without output: %v", bad)
	}
}

// A rejected MEP has its MFPs where the region of interest was, and never asked for elsewhere.
func TestAccountsWithRejectedMEPs(t *testing.T) {
	r, reg, sums := balanced()
	reg.Counters.Issued, reg.Counters.Rejected = 11, 1
	r.EventsTriggered, r.EventsRejected = 1100, 100
	r.MFPsRead += 6
	sums["bu.mfps_rejected"], sums["bu.mfps_unasked"] = 3, 3
	sums["ru.tokens"], sums["ru.writes"], sums["ru.unasked"], sums["bu.unasked"] = 22, 21, 1, 1
	if bad := failing(append(schedulerChecks(r, reg), unitChecks(r, reg, countsIn(sums))...)); bad != nil {
		t.Errorf("do not balance: %v", bad)
	}
	r.Filter = &Filter{ByRegion: true, Accepted: 990, TimedOut: 10, Rejected: 100, RejectedByRegion: 100}
	if bad := failing(unitChecks(r, reg, countsIn(sums))); bad != nil {
		t.Errorf("with a filter that judged regions: %v", bad)
	}
	r.Filter.RejectedByRegion, r.Filter.Rejected = 99, 99
	bad := failing(unitChecks(r, reg, countsIn(sums)))
	if len(bad) != 1 || !strings.HasPrefix(bad[0], "events rejected by their region") {
		t.Errorf("a rejection that the filter does not know of is found by %v", bad)
	}
}

// withdrawn is balanced with builder unit n1 excluded: of 10 MEPs the scheduler took 4 from it, 1 of those it built
// came too late, and 2 were given to n0.
func withdrawn(lost bool) (*Report, *core.Registers, map[string]uint64) {
	r, reg, _ := balanced()
	r.Output, r.RecordedOutput = "x.mep", &Output{}
	reg.Counters.Reissued = 2
	reg.Bus = []*core.BURegister{
		{Name: "n0", Counters: &core.BUCounters{Tokens: 6, Built: 6}},
		{Name: "n1", Excluded: true, Lost: lost, Counters: &core.BUCounters{
			Tokens:     6,
			Built:      4,
			Withdrawn:  2,
			Exclusions: 1,
		}},
	}
	r.Counters = []NodeCounters{
		{Node: "n0", Counters: map[string]uint64{
			"bu.meps_built": 6, "bu.mfps_placed": 36, "ru.tokens": 12, "ru.writes": 11, "ru.withdrawn": 1, "ru.retained": 2,
			"ru.bytes_written": 4096, "link.bytes_placed": 2048,
		}},
		{Node: "n1", Counters: map[string]uint64{
			"bu.meps_built": 5, "bu.mfps_placed": 30, "ru.tokens": 12, "ru.writes": 11, "ru.withdrawn": 1, "ru.retained": 2,
			"link.bytes_placed": 2048,
		}},
	}
	sums := map[string]uint64{}
	for _, n := range r.Counters {
		for name, v := range n.Counters {
			sums[name] += v
		}
	}
	sums[sumMFPsAhead] = 12
	return r, reg, sums
}

// Where a builder unit was excluded the scheduler's accounts stand for its figures; what a lost one had is not checked,
// and that is said.
func TestAccountsWithoutABuilder(t *testing.T) {
	r, reg, sums := withdrawn(false)
	reg.Counters.Refused[core.NotNow] = 3 // somebody was impatient
	all := unitChecks(r, reg, countsIn(sums))
	if bad := failing(all); bad != nil || len(all) != 10 || len(r.NotChecked) != 2 ||
		!strings.Contains(r.NotChecked[0], "n1") {
		t.Errorf("%v do not balance of %d; %q", bad, len(all), r.NotChecked)
	}
	for _, returned := range []bool{false, true} { // what its former process counted is lost as well
		r, reg, sums = withdrawn(true)
		reg.Bus[1].Excluded, reg.Bus[1].Lost, reg.Bus[1].Returned = !returned, !returned, returned
		r.Counters[1].Counters["link.tx_used"] = 1 // as it was when it was last heard of
		sums["link.bytes_placed"]--
		all = unitChecks(r, reg, countsIn(sums))
		if bad := failing(all); bad != nil || len(all) != 8 || len(r.NotChecked) != 3 ||
			!strings.Contains(r.NotChecked[2], "bytes") {
			t.Errorf("lost, and back %v: %v do not balance of %d; %q", returned, bad, len(all), r.NotChecked)
		}
	}
	for name, off := range map[string]func(){
		"a MEP built in secret by another": func() { r.Counters[0].Counters["bu.meps_built"]++ },
		"a MEP built twice":                func() { reg.Bus[1].Counters.Built++ },
		"a token that came to nothing":     func() { sums["ru.withdrawn"]-- },
		"a reissue that nobody heard of":   func() { reg.Counters.Reissued++ },
		"an open transfer":                 func() { r.Counters[0].Counters["ru.open"]++ },
	} {
		r, reg, sums = withdrawn(true)
		off()
		if bad := failing(unitChecks(r, reg, countsIn(sums))); bad == nil {
			t.Errorf("%s is not found", name)
		}
	}
}

// Where a readout unit was gone what it counted is not checked, and that is said; what is missing for that is.
func TestAccountsWithoutAReadoutUnit(t *testing.T) {
	gone := func() (*Report, *core.Registers, map[string]uint64) {
		r, reg, sums := balanced()
		reg.Rus = []*tagnetv1.RURegister{{Name: "n0"}, {Name: "n1", Excluded: true, Exclusions: 1}}
		r.Counters = []NodeCounters{
			{Node: "n0", Counters: map[string]uint64{
				"bu.meps_built": 10, "bu.mfps_placed": 48, "bu.mfps_missing": 12, "ru.tokens": 10, "ru.writes": 10,
			}},
			{Node: "n1", Counters: map[string]uint64{"ru.tokens": 3, "ru.writes": 2, "ru.open": 1, "link.tx_used": 1}},
		}
		return r, reg, sums
	}
	r, reg, sums := gone()
	all := unitChecks(r, reg, countsIn(sums))
	if bad := failing(all); bad != nil || len(r.NotChecked) != 1 || !strings.Contains(r.NotChecked[0], "n1") {
		t.Errorf("%v do not balance of %d; %q", bad, len(all), r.NotChecked)
	}
	for name, off := range map[string]func(){
		"an MFP that nobody has made": func() { r.Counters[0].Counters["bu.mfps_missing"]-- },
		"a token that did not come":   func() { r.Counters[0].Counters["ru.tokens"]-- },
		"a write without an outcome":  func() { r.Counters[0].Counters["ru.writes"]-- },
		"an open transfer":            func() { r.Counters[0].Counters["ru.open"]++ },
	} {
		r, reg, sums = gone()
		off()
		if bad := failing(unitChecks(r, reg, countsIn(sums))); bad == nil {
			t.Errorf("%s is not found", name)
		}
	}
}

// What was reported as built is in the files. More than that is there only where somebody was not told in time.
func TestAccountsReachTheFiles(t *testing.T) {
	for _, c := range []struct {
		built, found uint64
		exact, ok    bool
	}{
		{100, 100, true, true},
		{100, 99, true, false},
		{100, 101, true, false},
		{100, 100, false, true},
		{100, 120, false, true},
		{100, 99, false, false},
	} {
		r := &Report{EventsBuilt: c.built, OutputEvents: c.found}
		if bad := failing(outputChecks(r, c.exact)); (bad == nil) != c.ok {
			t.Errorf("%+v: %v", c, bad)
		}
	}
}

// Where the scheduler is lost the files say what was built.
func TestFilesAreTrusted(t *testing.T) {
	r := &Report{
		EventsTriggered: 1000,
		EventsBuilt:     500,
		MEPsBuilt:       5,
		EventsRejected:  100,
	}
	r.reconcileFigures(9, 900, 1400)
	if r.EventsTriggered != 1400 || r.EventsBuilt != 900 || r.MEPsBuilt != 9 || r.EventsAbandoned != 400 {
		t.Errorf("%+v", r)
	}
	r = &Report{
		EventsTriggered: 1000,
		EventsBuilt:     900,
		MEPsBuilt:       9,
		EventsAbandoned: 100,
	}
	r.reconcileFigures(8, 800, 900)
	if r.EventsTriggered != 1000 || r.EventsBuilt != 900 || r.MEPsBuilt != 9 || r.EventsAbandoned != 100 {
		t.Errorf("fewer in the files than were reported is not to be hidden: %+v", r)
	}
	r = &Report{ // of live data the end of what is in the files is their number
		EventsTriggered: 1000,
		EventsBuilt:     700,
		EventsDiscarded: 200,
		EventsAbandoned: 100,
	}
	r.reconcileFigures(11, 1100, 1100)
	if r.EventsTriggered != 1300 || r.EventsBuilt != 1100 || r.EventsAbandoned != 0 {
		t.Errorf("what was triggered since then and built is not counted: %+v", r)
	}
}
