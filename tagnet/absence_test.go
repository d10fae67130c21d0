package tagnet

import (
	"slices"
	"testing"

	"ringlet/tagnet/core"
	"ringlet/testkit/patiently"
)

// TestAbsenceWords holds the words to docs/format/tagnet.md, and refuses what are none.
func TestAbsenceWords(t *testing.T) {
	all := []core.Absence{{RU: 3, FirstCycle: 7, FirstMEP: 21}, {RU: 3, Rejoined: true, FirstCycle: 9, FirstMEP: 30}}
	want := []uint64{3, 7, 21, 1<<63 | 3, 9, 30}
	if got := appendAbsences(nil, all); !slices.Equal(got, want) {
		t.Errorf("%+v are %x, want %x", all, got, want)
	}
	if got, ok := decodeAbsences(want); !ok || !slices.Equal(got, all) {
		t.Errorf("%x are %+v, %v, want %+v", want, got, ok, all)
	}
	for _, words := range [][]uint64{{1}, {1, 2}, {1, 2, 3, 4}, {1 << 16, 2, 3}, {1 << 62, 2, 3}} {
		if got, ok := decodeAbsences(words); ok {
			t.Errorf("%x were taken for %+v", words, got)
		}
	}
}

// TestAbsenceReported holds that readout and builder units are told who has gone, the builder unit once, and that it
// says so.
func TestAbsenceReported(t *testing.T) {
	sys := serve(t, small(3, 1))
	rus := []*RUClient{sys.ru(t, "ru0"), sys.ru(t, "ru1"), sys.ru(t, "ru2")}
	reported := make(chan []core.Absence, 3)
	bu, err := newBUClient(testContext(t), sys.conn, sys.scope("bu0"), sys.cfg.Core.Slots,
		BUHandlers{OnAbsences: func(all []core.Absence) { reported <- all }})
	must(t, err)
	defer bu.Close()
	must(t, rus[0].Update(core.Update{ReadBelow: 1, Events: 1}))
	must(t, rus[1].Update(core.Update{ReadBelow: 1, Events: 1}))
	must(t, sys.server.ExcludeRU("ru2"))
	want := core.Absence{RU: 2}
	for _, ru := range rus[:2] {
		for {
			tokens := nextBatch(t, ru)
			if len(tokens.Absences) == 0 {
				continue
			}
			if !slices.Equal(tokens.Absences, []core.Absence{want}) || tokens.FirstCycle < want.FirstCycle {
				t.Errorf("a readout unit was told %+v before cycle %d, want %+v", tokens.Absences, tokens.FirstCycle, want)
			}
			break
		}
	}
	if got := patiently.Receive(t, reported); !slices.Equal(got, []core.Absence{want}) {
		t.Errorf("the builder unit was told %+v, want %+v", got, want)
	}
	// Only when the builder unit has said that it goes by what it was told is a MEP issued that ru2 takes part in again.
	must(t, sys.server.IncludeRU("ru2"))
	again := sys.ru(t, "ru2")
	from := again.RejoinPoint().FirstMEP
	for _, ru := range rus[:2] {
		must(t, ru.Update(core.Update{ReadBelow: from + 1, Events: from + 1}))
	}
	must(t, again.Update(core.Update{ReadBelow: from + 1, Events: 1}))
	if tok := nextToken(t, again, 0); tok.MEP != from {
		t.Errorf("the first token after the return is %+v, want MEP %d", tok, from)
	}
}
