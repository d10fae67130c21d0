package selection_test

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ringlet/event"
	"ringlet/event/selection"
	"ringlet/testkit/mfp"
	"ringlet/testkit/must"
)

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// mepOf lays a MEP out, of so many events from a first one, with the fragments that of gives for a source and an event.
func mepOf(t must.TB, sources, events int, first uint64, of func(source, i int) mfp.Fragment) []byte {
	b := make([]byte, event.MEPHeaderSize(sources))
	var ids []uint16
	var offsets []uint32
	for s := range sources {
		fragments := make([]mfp.Fragment, events)
		for i := range fragments {
			fragments[i] = of(s, i)
		}
		ids, offsets = append(ids, uint16(s)), append(offsets, uint32(len(b)/event.MEPWordBytes))
		b = append(b, mfp.Build(event.MFPHeader{FirstEvent: first, Source: uint16(s), Align: 2}, fragments...)...)
		for len(b)%event.MEPWordBytes != 0 {
			b = append(b, 0)
		}
	}
	_, err := event.PutMEPHeader(b, ids, offsets, uint32(len(b)/event.MEPWordBytes))
	must.OK(t, err)
	return b
}

// plain is a fragment whose bytes say where it belongs.
func plain(source, i int) mfp.Fragment {
	return mfp.Fragment{Type: event.BankType(63 + source), Data: fmt.Appendf(nil, "%d:%d", source, i)}
}

func parsed(t must.TB, meta selection.Meta, mep []byte) *selection.Packet {
	p := new(selection.Packet)
	must.OK(t, p.Parse(meta, mep))
	return p
}

func parse(t must.TB, s selection.Spec) selection.Selection {
	sel, err := selection.Parse(s)
	must.OK(t, err)
	return sel
}

func TestSpecsAreChecked(t *testing.T) {
	for _, tt := range []struct {
		spec  selection.Spec
		field string // that is wrong; empty: none
	}{
		{selection.Spec{}, ""},
		{selection.Spec{Rate: selection.MaxRate, Sources: []string{"0-65535"}, Types: []string{"vp", "255"}}, ""},
		{selection.Spec{Rate: -1}, "rate"},
		{selection.Spec{Rate: math.NaN()}, "rate"},
		{selection.Spec{Rate: math.Inf(1)}, "rate"},
		{selection.Spec{Sources: []string{"65536"}}, "source"},
		{selection.Spec{Sources: []string{"7-3"}}, "source"},
		{selection.Spec{Sources: []string{"1-2-3"}}, "source"},
		{selection.Spec{Sources: make([]string, 2000)}, "source"},
		{selection.Spec{Types: []string{"Pixel"}}, "type"},
		{selection.Spec{Types: []string{"256"}}, "type"},
		{selection.Spec{Types: make([]string, 2000)}, "type"},
		{selection.Spec{MinSize: 9, MaxSize: 8}, "min-size"},
	} {
		_, err := selection.Parse(tt.spec)
		var wrong *selection.FieldError
		if got := errors.As(err, &wrong); got != (tt.field != "") || got && wrong.Field != tt.field {
			t.Errorf("%.80v gives %v", fmt.Sprint(tt.spec), err)
		}
	}
}

// TestTheRateHolds draws MEPs at any times, and holds that no second shows more than the rate and what a full bucket
// had, that events come in rising order, and that a MEP whose events may all be shown is shown from its first on.
func TestTheRateHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.Float64Range(0.1, 500).Draw(t, "rate")
		p := selection.NewPicker(parse(t, selection.Spec{Rate: rate}), noon, 0)
		now, first, all := noon, uint64(0), []time.Time{}
		for mep := range rapid.IntRange(1, 40).Draw(t, "meps") {
			now = now.Add(time.Duration(rapid.IntRange(-10, 700).Draw(t, "ms")) * time.Millisecond)
			n := rapid.IntRange(0, 300).Draw(t, "events")
			m := parsed(t, selection.Meta{MEP: uint64(mep)}, mepOf(t, 1, n, first, plain))
			if rapid.Bool().Draw(t, "asked") && now.Before(p.NextDue()) {
				first += uint64(n)
				continue
			}
			last := -1
			p.Pick(now, m, first, func(i int) {
				if i <= last || i >= n {
					t.Fatalf("event %d of %d after %d", i, n, last)
				}
				last, all = i, append(all, now)
			})
			first += uint64(n)
		}
		slices.SortFunc(all, time.Time.Compare) // clocks that go back cannot bring more
		for i, from := range all {
			k := i
			for k < len(all) && all[k].Sub(from) < time.Second {
				k++
			}
			if most := rate + max(1, rate) + 1; float64(k-i) > most {
				t.Fatalf("%d events in a second, %g are the most", k-i, most)
			}
		}
		if c := p.Counts(); c.Picked != uint64(len(all)) || c.Skipped != 0 {
			t.Fatalf("%+v of %d events, %d picked", c, first, len(all))
		}
	})
}

// TestShareIsOneInN holds that the share goes on from MEP to MEP.
func TestShareIsOneInN(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		share := rapid.Uint64Range(1, 70).Draw(t, "share")
		p := selection.NewPicker(parse(t, selection.Spec{Share: share}), noon, 0)
		first := uint64(0)
		var got []uint64
		for mep := range rapid.IntRange(1, 20).Draw(t, "meps") {
			n := rapid.IntRange(0, 100).Draw(t, "events")
			m := parsed(t, selection.Meta{MEP: uint64(mep)}, mepOf(t, 2, n, first, plain))
			p.Pick(noon, m, first, func(i int) { got = append(got, first+uint64(i)) })
			first += uint64(n)
		}
		var want []uint64
		for e := uint64(0); e < first; e += share {
			want = append(want, e)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("one in %d of %d events: %v", share, first, got)
		}
	})
}

func TestFilters(t *testing.T) {
	m := parsed(t, selection.Meta{}, mepOf(t, 3, 8, 100, func(s, i int) mfp.Fragment {
		f := mfp.Fragment{Type: event.BankType(63 + s), Data: make([]byte, i)}
		if s == 1 && i%2 == 0 {
			f = mfp.Fragment{Type: event.FragmentMissing}
		}
		if s == 2 && i == 5 {
			bank, err := event.AppendBank(nil, 16, 1, 2, nil)
			must.OK(t, err)
			f = mfp.Fragment{Type: event.FragmentContainer, Data: bank}
		}
		return f
	}))
	for _, tt := range []struct {
		spec selection.Spec
		want string // events, and the sources that each is shown with
	}{
		{selection.Spec{}, "0:012 1:012 2:012 3:012 4:012 5:012 6:012 7:012 "},
		{selection.Spec{Sources: []string{"1"}}, "0:1 1:1 2:1 3:1 4:1 5:1 6:1 7:1 "},
		{selection.Spec{Sources: []string{"9-20"}}, ""},
		{selection.Spec{Types: []string{"fragmentmissing"}}, "0:1 2:1 4:1 6:1 "},
		{selection.Spec{Types: []string{"ODIN"}}, "5:2 "},
		{selection.Spec{Sources: []string{"0"}, MinSize: 3, MaxSize: 4}, "3:0 4:0 "},
		{selection.Spec{MinSize: 18}, "5:012 7:012 "},
		{selection.Spec{Share: 3, Types: []string{"63"}}, "0:0 3:0 6:0 "},
	} {
		for _, data := range []bool{false, true} {
			tt.spec.Data, tt.spec.Rate = data, selection.MaxRate
			sel := parse(t, tt.spec)
			p := selection.NewPicker(sel, noon, 0)
			got := ""
			p.Pick(noon, m, 0, func(i int) {
				e := m.Event(i, sel.NeedsData())
				e = sel.TrimEvent(e)
				got += fmt.Sprintf("%d:", e.Number-100)
				for _, f := range e.Fragments {
					got += fmt.Sprint(f.Source)
					if (f.Data != nil) != data || data && len(f.Data) != f.Size {
						t.Errorf("%+v shows %d bytes of %d", tt.spec, len(f.Data), f.Size)
					}
				}
				got += " "
			})
			if got != tt.want {
				t.Errorf("%+v shows %q, not %q", tt.spec, got, tt.want)
			}
		}
	}
}

// TestAFilterIsGivenUpOn holds that looking has a bound, and that what it leaves is counted.
func TestAFilterIsGivenUpOn(t *testing.T) {
	m := parsed(t, selection.Meta{}, mepOf(t, 20, 30_000, 0, func(int, int) mfp.Fragment { return mfp.Fragment{} }))
	p := selection.NewPicker(parse(t, selection.Spec{Types: []string{"VP"}}), noon, 0)
	p.Pick(noon, m, 0, func(int) { t.Error("there is no such event") })
	if c := p.Counts(); c.Skipped == 0 || c.Skipped >= 30_000 {
		t.Errorf("%+v", c)
	}
	before := p.Counts().Skipped
	p.Pick(noon.Add(time.Second), m, 30_000, func(int) { t.Error("there is no such event") })
	if after := p.Counts().Skipped; after <= before || after >= 2*30_000 {
		t.Errorf("%d, and %d a second later", before, after)
	}
}

// TestEventsAreTheWalk holds Event(i) against the walk over all.
func TestEventsAreTheWalk(t *testing.T) {
	m := parsed(t, selection.Meta{Run: 3, MEP: 5}, mepOf(t, 4, 50, 1000, plain))
	i := 0
	for e := range m.Events() {
		one := m.Event(i, true)
		if fmt.Sprint(one) != fmt.Sprint(e) || e.Number != 1000+uint64(i) || one.Size() != e.Size() {
			t.Fatalf("event %d is %v and %v", i, one, e)
		}
		i++
	}
	if i != 50 {
		t.Errorf("%d events", i)
	}
}

func TestMEPsThatDisagreeAreRefused(t *testing.T) {
	a := mepOf(t, 2, 3, 7, plain)
	b := slices.Clone(a)
	b[event.MEPHeaderSize(2)+8]++ // the first event id of source 0
	p := new(selection.Packet)
	if err := p.Parse(selection.Meta{}, b); !errors.Is(err, event.ErrOrder) || p.NumEvents() != 0 {
		t.Errorf("%v, %d events", err, p.NumEvents())
	}
}

// handMade reads bytes that were written by hand for package event.
func handMade(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile("../testdata/" + name + ".hex")
	must.OK(t, err)
	var digits strings.Builder
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		digits.WriteString(strings.Join(strings.Fields(line), ""))
	}
	b, err := hex.DecodeString(digits.String())
	must.OK(t, err)
	return b
}

func FuzzPacket(f *testing.F) {
	f.Add(handMade(f, "mep"), "3", "16")
	f.Fuzz(func(t *testing.T, mep []byte, source, kind string) {
		sel, err := selection.Parse(selection.Spec{Sources: []string{source}, Types: []string{kind}, Data: true})
		var wrong *selection.FieldError
		if err != nil && !errors.As(err, &wrong) {
			t.Fatal(err)
		}
		p := new(selection.Packet)
		if p.Parse(selection.Meta{}, mep) != nil || err != nil {
			return
		}
		picker, r := selection.NewPicker(sel, noon, 0), new(selection.Renderer)
		picker.Pick(noon, p, 0, func(i int) {
			e := sel.TrimEvent(p.Event(i, true))
			for _, format := range []selection.Format{selection.FormatJSON, selection.FormatHex, selection.FormatMDF} {
				if out, err := r.AppendEvent(nil, format, &e); err != nil && len(out) > 0 {
					t.Fatalf("%v, and %d bytes", err, len(out))
				}
			}
		})
	})
}

// TestBlocks: events are picked in whole blocks of consecutive numbers, pickers of several builder units pick the same
// ones, and no more than the rate allows in the long run.
func TestBlocks(t *testing.T) {
	const block, perMEP, rate = 64, 10, 1000
	sel := parse(t, selection.Spec{Block: block, Rate: rate})
	if _, err := selection.Parse(selection.Spec{Block: block, Share: 2}); err == nil {
		t.Error("a share goes with blocks")
	}
	pickers := []selection.Picker{selection.NewPicker(sel, noon, 0), selection.NewPicker(sel, noon, 0)}
	picked, at := map[uint64]int{}, [2]uint64{}
	for mep := range uint64(20_000) { // 50,000 events a second, for 4 s
		now, who := noon.Add(time.Duration(mep)*perMEP*20*time.Microsecond), mep%2
		p := parsed(t, selection.Meta{MEP: mep}, mepOf(t, 1, perMEP, mep*perMEP, plain))
		pickers[who].Pick(now, p, at[who], func(i int) { picked[(mep*perMEP+uint64(i))/block]++ })
		at[who] += perMEP
		if pickers[who].NextDue().After(now) {
			t.Fatal("a block would be broken")
		}
	}
	last, whole := 0, 0
	for b, n := range picked {
		if b > 2500 { // in the last second
			last += n
		}
		if n == block {
			whole++
		}
	}
	if last > 2*rate || whole < len(picked)*8/10 || whole < 5 {
		t.Errorf("%d events in the last second, %d of %d blocks are whole", last, whole, len(picked))
	}
}
