package counter

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

type tones [4]uint64

func (tones) Kinds() []string { return []string{"", "low", "very high", ""} }

type inner struct {
	BytesSent uint64 `unit:"bytes" help:"bytes sent"`
	MTU       int    `kind:"max" help:"largest packet"`
}

// atoms are counters that several goroutines count.
type atoms struct {
	AESFailed atomic.Uint64 `help:"packets that did not open"`
}

type outer struct {
	inner
	*atoms
	Peer       string // no counter, nor are these two
	Began      time.Time
	Rates      []float64
	Hidden     uint64            `count:"-"`
	Tones      tones             `count:"tone_" help:"tones"`
	Rejections tones             `count:"strays." help:"strays"`
	Refused    map[string]uint64 `count:"refused." help:"refused, by reason"`
	Waiting    time.Duration     `help:"time waiting"`
	Open       int               `count:"open_now" kind:"level" help:"open now"`
	Other      *inner            `count:"other_"`
	Inline     inner             `count:"in"`
}

func TestList(t *testing.T) {
	got := StructOf(struct {
		Outer *outer `count:"x."`
	}{}).List()
	want := List{
		{"x.bytes_sent", "bytes", "bytes sent", Count, false},
		{"x.mtu", "", "largest packet", Max, false},
		{"x.aes_failed", "", "packets that did not open", Count, false},
		{"x.tone_low", "", "tones", Count, false},
		{"x.tone_very_high", "", "tones", Count, false},
		{"x.strays.", "", "strays", Count, true},
		{"x.refused.", "", "refused, by reason", Count, true},
		{"x.waiting_us", "µs", "time waiting", Count, false},
		{"x.open_now", "", "open now", Level, false},
		{"x.other_bytes_sent", "bytes", "bytes sent", Count, false},
		{"x.other_mtu", "", "largest packet", Max, false},
		{"x.inbytes_sent", "bytes", "bytes sent", Count, false},
		{"x.inmtu", "", "largest packet", Max, false},
	}
	if !slices.Equal(got, want) {
		t.Errorf("%+v\nnot %+v", got, want)
	}
	if c, ok := got.Find("x.strays.very_high"); !ok || c.Name != "x.strays." {
		t.Errorf("found %+v", c)
	}
	if c, ok := got.Find("x.strays"); ok {
		t.Errorf("found %+v", c)
	}
}

func TestRead(t *testing.T) {
	o := outer{
		inner:      inner{BytesSent: 1, MTU: 2},
		Tones:      tones{9, 3, 0, 9},
		Rejections: tones{9, 0, 4, 9},
		Refused:    map[string]uint64{"bad access": 5, "overlap": 0},
		Waiting:    6 * time.Millisecond,
		Open:       -7, // two atomics that were not read at once
	}
	got := map[string]uint64{}
	StructOf(o).Read(got, &o)
	want := map[string]uint64{
		"bytes_sent": 1, "mtu": 2, "tone_low": 3, "tone_very_high": 0, "strays.very_high": 4, "refused.bad_access": 5,
		"waiting_us": 6000, "open_now": 0, "inbytes_sent": 0, "inmtu": 0,
	}
	if !maps.Equal(got, want) {
		t.Errorf("%v, not %v", got, want)
	}
	o.atoms, o.Other = &atoms{}, &inner{BytesSent: 8}
	o.AESFailed.Add(9)
	StructOf(o).Read(got, &o)
	if got["aes_failed"] != 9 || got["other_bytes_sent"] != 8 || len(got) != len(want)+3 {
		t.Errorf("%v", got)
	}
}

func TestSum(t *testing.T) {
	sums := map[string]uint64{}
	list := StructOf(inner{}).List()
	for _, n := range []uint64{3, 5, 4} {
		list.AddReport(sums, map[string]uint64{"bytes_sent": n, "mtu": n, "of another version": n})
	}
	if want := map[string]uint64{"bytes_sent": 12, "mtu": 5, "of another version": 12}; !maps.Equal(sums, want) {
		t.Errorf("%v, not %v", sums, want)
	}
}

// A number that is not described is a mistake of whoever wrote it down.
func TestWhatNobodyCanSee(t *testing.T) {
	for _, of := range []any{
		struct{ Writes uint64 }{},
		struct{ Held int }{},
		struct{ Waiting time.Duration }{},
		struct{ Kinds [3]uint64 }{},
		struct {
			writes uint64 `help:"writes"`
		}{},
		struct {
			Kinds [3]uint64 `help:"no names"`
		}{},
		struct {
			Reasons map[string]uint64 `count:"no_dot" help:"of a map"`
		}{},
		struct {
			Writes uint64 `kind:"gauge" help:"no such kind"`
		}{},
	} {
		func() {
			defer func() {
				if r, _ := recover().(string); !strings.HasPrefix(r, "counter: ") {
					t.Errorf("%v is described: %v", reflect.TypeOf(of), r)
				}
			}()
			StructOf(of)
		}()
	}
}
