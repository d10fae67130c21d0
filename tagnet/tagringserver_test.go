package tagnet

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"ringlet/tagnet/core"
)

// TestTagRingOverStreams takes tags to the first readout unit and back from the last.
func TestTagRingOverStreams(t *testing.T) {
	cfg := small(2, 2)
	cfg.Core.TagRing, cfg.Core.Loose, cfg.Core.BypassBusyRUs, cfg.Core.EndMEP = true, true, true, 2
	sys := serve(t, cfg)
	first, last := sys.ru(t, "ru0"), sys.ru(t, "ru1")
	bus := []*BUClient{sys.bu(t, "bu0"), sys.bu(t, "bu1")}
	for _, c := range []*RUClient{first, last} {
		must(t, c.Update(core.Update{ReadBelow: 2, Events: 2}))
	}
	var tags []core.Tag
	for len(tags) < 2 {
		batch := nextBatch(t, first)
		tags = append(tags, batch.Tags...)
	}
	// The second one was passed on, and comes again.
	for i, served := range [][]int{{0, 1}, {1}} {
		for _, ru := range served {
			tags[i].Served.Add(ru)
		}
		must(t, last.ReturnTag(&tags[i]))
	}
	for len(tags) < 3 {
		batch := nextBatch(t, first)
		tags = append(tags, batch.Tags...)
	}
	if again := tags[2]; again.TokenPlace != tags[1].TokenPlace || again.Loop != 1 || again.Served != tags[1].Served {
		t.Fatalf("%+v", again)
	}
	// The last but one readout unit launches nothing.
	for {
		batch, err := last.Next(testContext(t))
		if err != nil || len(batch.Tags) > 0 {
			t.Fatalf("%v %v", batch.Tags, err)
		}
		if batch.Len() > 0 {
			break
		}
	}
	for _, tag := range tags[:2] {
		bu := int(tag.TokenPlace % 2)
		must(t, bus[bu].SendFeedback(built(core.Token{MEP: tag.MEP, Slot: tag.Slot, Attempt: tag.Attempt}, 1)))
	}
	tags[2].Served.Add(0)
	if err := last.ReturnTag(&tags[2]); err != nil && !errors.Is(err, io.EOF) { // the end may come before it returns
		t.Fatal(err)
	}
	select {
	case <-sys.server.Drained():
	case <-testContext(t).Done():
		t.Fatalf("%+v", sys.server.Registers())
	}
	reg := sys.server.Registers()
	if g := reg.Counters.Tags; g.Launched != 2 || g.Returned != 2 || g.Again != 1 || g.Loops[1] != 1 {
		t.Errorf("%+v", g)
	}
	if n := (&core.Stats{Registers: reg}).CountersByName(); n["tags_returned"] != 2 || n["tags_loops_1"] != 1 {
		t.Errorf("%v", n)
	}
}

// TestWrongTagEndsTheRun holds that a tag that is not as it was sent cuts the readout unit off, and is reported.
func TestWrongTagEndsTheRun(t *testing.T) {
	cfg := small(1, 1)
	cfg.Core.TagRing = true
	sys := serve(t, cfg)
	ru := sys.ru(t, "ru0")
	sys.bu(t, "bu0")
	must(t, ru.Update(core.Update{ReadBelow: 1, Events: 1}))
	nextToken(t, ru, 0)
	err := ru.ReturnTag(&core.Tag{TokenPlace: 0, MEP: 7, Attempt: 1}) // the refusal may come before it returns
	e := sys.incident(t)
	if e.Incident != core.UnitMisbehaved || e.Unit != "ru0" || !strings.Contains(e.Error(), "where MEP 0") {
		t.Errorf("%v", e)
	}
	for err == nil {
		_, err = ru.Next(testContext(t))
	}
	var remote *RemoteError
	if !errors.As(err, &remote) || remote.Refusal != core.RefusedInput {
		t.Errorf("%v", err)
	}
	if n := sys.server.Registers().Counters.Refused[core.TagWrong]; n != 1 {
		t.Errorf("counted %d times", n)
	}
}

// TestTagsWithAnEndThatDoesNotFit holds that tags that come with an end which others contradict are checked off: the
// update stands.
func TestTagsWithAnEndThatDoesNotFit(t *testing.T) {
	cfg := small(2, 1)
	cfg.Core.TagRing, cfg.Core.Loose = true, true
	sys := serve(t, cfg)
	first, last := sys.ru(t, "ru0"), sys.ru(t, "ru1")
	sys.bu(t, "bu0")
	for ru, c := range []*RUClient{first, last} {
		must(t, c.Update(core.Update{ReadBelow: uint64(2 - ru), Events: uint64(2 - ru)}))
	}
	var tags []core.Tag
	for len(tags) == 0 {
		batch := nextBatch(t, first)
		tags = batch.Tags
	}
	tags[0].Served.Add(0)
	tags[0].Served.Add(1)
	sys.server.runAsOwner(func() {
		for number, st := range sys.server.streams {
			if st.unit == (core.Unit{Role: core.Readout, Index: 1}) {
				sys.server.core.Step(sys.server.now(), core.Report{Unit: 1, Stream: number, Returned: tags[:1],
					Update: core.Update{ReadBelow: 1, Events: 1, InputEnded: true}})
			}
		}
	})
	if e := sys.incident(t); e.Incident != core.UnitMisbehaved || e.Unit != "ru1" ||
		!strings.Contains(e.Error(), "the input ends at") {
		t.Errorf("%v", e)
	}
	if r := sys.server.Registers(); r.Counters.Tags.Returned != 1 || r.Tags.Now != 0 || !r.Rus[1].Attached {
		t.Errorf("%+v %+v", r, r.Rus[1])
	}
}

// TestExclusionIsReportedToTheTagRing holds that all readout units hear what is withdrawn, and that the ring closes
// over the gap: the tags start again at the first readout unit that is left, once it has dropped those that it had.
func TestExclusionIsReportedToTheTagRing(t *testing.T) {
	cfg := small(2, 2)
	cfg.Core.TagRing, cfg.Core.Loose = true, true
	sys := serve(t, cfg)
	rus := []*RUClient{sys.ru(t, "ru0"), sys.ru(t, "ru1")}
	sys.bu(t, "bu0")
	sys.bu(t, "bu1")
	for _, c := range rus {
		must(t, c.Update(core.Update{ReadBelow: 2, Events: 2}))
	}
	nextToken(t, rus[0], 1)
	if _, err := sys.server.ExcludeBU("bu1"); err != nil {
		t.Fatal(err)
	}
	for i, c := range rus {
		for {
			batch := nextBatch(t, c)
			if len(batch.Withdrawals) == 0 {
				continue
			}
			if !slices.Equal(batch.Withdrawals, []core.Withdrawal{{BU: 1, BeforeCycle: 1}}) {
				t.Errorf("ru%d: %v", i, batch.Withdrawals)
			}
			break
		}
	}
	must(t, sys.server.ExcludeRU("ru0"))
	for len(nextBatch(t, rus[1]).Absences) == 0 {
	}
	must(t, rus[1].ReportCleared(1))
	for {
		if tags := nextBatch(t, rus[1]).Tags; len(tags) > 0 {
			if tags[0].MEP != 0 || tags[0].Generation != 1 {
				t.Errorf("%+v starts again", tags[0])
			}
			return
		}
	}
}
