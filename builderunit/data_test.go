package builderunit

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"ringlet/event"
	"ringlet/event/placing"
	"ringlet/tagnet/core"
	"ringlet/testkit/must"
)

// accuse makes a builder unit that goes on without readout units, and notes which of them it is to go on without.
type accuse struct {
	mu    sync.Mutex
	named []int
}

func (a *accuse) change(kind Verify) func(*rig, *Config) {
	return func(r *rig, c *Config) {
		tolerant(r, c)
		c.Verify, c.Packing = kind, rigPacking
		c.Tolerates = func(bad *DataError) bool {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.named = append(a.named, bad.RU)
			return true
		}
	}
}

func (a *accuse) want(t *testing.T, rus ...int) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if !slices.Equal(a.named, rus) {
		t.Errorf("the readout units %v are named, not %v", a.named, rus)
	}
}

// TestBadDataTolerated holds that what does not fit of a readout unit is taken for missing, where that is tolerated:
// the MEP is built, the others have their data in it, and the readout unit is named.
func TestBadDataTolerated(t *testing.T) {
	data := event.MFPHeaderSize(rigPacking)
	for name, tc := range map[string]struct {
		kind   Verify
		damage map[int]func(p *piece)
	}{
		"a byte":             {VerifyCRC, map[int]func(*piece){1: func(p *piece) { p.data[data] ^= 1 }}},
		"the first":          {VerifyCRC, map[int]func(*piece){0: func(p *piece) { p.data[data] ^= 1 }}},
		"two readout units":  {VerifyCRC, map[int]func(*piece){0: flip(data), 2: flip(data)}},
		"a source":           {VerifyFull, map[int]func(*piece){1: func(p *piece) { p.data[16] = 77; p.recount() }}},
		"other events":       {VerifyOff, map[int]func(*piece){0: flip(8), 1: flip(8)}}, // in the header, the first one
		"not checked, magic": {VerifyOff, map[int]func(*piece){0: func(p *piece) { p.data[0] = 0 }}},
	} {
		t.Run(name, func(t *testing.T) {
			var a accuse
			r := newRig(t, a.change(tc.kind))
			var pieces []*piece
			var rus []int
			var lacks []uint16
			for ru := range r.ranks {
				pieces = append(pieces, r.piece(ru, 0))
				if damage := tc.damage[ru]; damage != nil {
					damage(pieces[ru])
					rus, lacks = append(rus, ru), append(lacks, sourcesOf(ru)...)
				}
			}
			r.build(pieces, 0, 0)
			if res := r.result(); res.Outcome != core.Built || !res.PartsMissing || res.Events != rigPacking {
				t.Errorf("%+v", res)
			}
			a.want(t, rus...)
			r.wantMissing(0, lacks...)
			st := r.b.Stats()
			if st.MEPsLackingParts != 1 || st.MissingMFPs != uint64(len(lacks)) ||
				st.PlacedMFPs+st.MissingMFPs != uint64(rigDivision.Sources()) {
				t.Errorf("%+v", st)
			}
			for _, ru := range rus {
				if m := r.b.MissingByRU()[ru]; m.MEPs != 1 || m.Events != rigPacking {
					t.Errorf("readout unit %d is missing in %+v", ru, m)
				}
			}
		})
	}
}

func flip(at int) func(*piece) { return func(p *piece) { p.data[at] ^= 1 } }

// TestBadDataToleratedPreGranted is the same where windows are pre-granted, for what stands before the data, too.
func TestBadDataToleratedPreGranted(t *testing.T) {
	for name, damage := range map[string]func(p *piece, head int){
		"a byte":           func(p *piece, head int) { p.data[head+event.MFPHeaderSize(rigPacking)] ^= 1 },
		"a size too large": func(p *piece, _ int) { p.data[2] = 1 },
		"a size too small": func(p *piece, _ int) { clear(p.data[:4]) },
		"a part too long":  func(p *piece, _ int) { p.data = append(p.data, 0, 0, 0, 0) },
	} {
		for _, rus := range [][]int{{0}, {1}, {0, 2}} {
			t.Run(fmt.Sprintf("%s, %v", name, rus), func(t *testing.T) {
				var a accuse
				r := newPreGrantedRig(t, 1, a.change(VerifyCRC))
				var lacks []uint16
				for ru, rank := range r.ranks {
					p := r.part(ru, 3)
					if slices.Contains(rus, ru) {
						damage(p, rigDivision.SourceCount(ru)*placing.EntrySize)
						lacks = append(lacks, sourcesOf(ru)...)
					}
					r.b.Placed(rank, r.place(p, 0, 3, 1))
				}
				if res := r.result(); res.Outcome != core.Built || !res.PartsMissing {
					t.Errorf("%+v", res)
				}
				a.want(t, rus...)
				r.wantMissing(0, lacks...)
			})
		}
	}
}

// TestWrongSizeAnnounced holds that a size which no slot has room for names who announced it, and not the builder unit.
func TestWrongSizeAnnounced(t *testing.T) {
	for name, size := range map[string]uint32{"too large": 1 << 30, "too small": 3} {
		t.Run(name, func(t *testing.T) {
			var a accuse
			r := newRig(t, a.change(VerifyOff))
			var pieces []*piece
			for ru := range r.ranks {
				pieces = append(pieces, r.piece(ru, 0))
			}
			pieces[1].entries[0].Size = size
			for _, p := range pieces {
				_ = r.b.HandleAnnounce(r.ranks[p.ru], p.announcement(0, 0, 1)) // one that is refused says so
			}
			a.want(t, 1)
			must.OK(t, r.b.MarkRUGone(1, true))
			for _, ru := range []int{0, 2} {
				if v := r.write(pieces[ru], r.net.grant(r.ranks[ru], 0), 0, len(pieces[ru].data)); v != 0 {
					t.Fatal(v)
				}
			}
			r.result()
			r.wantMissing(0, sourcesOf(1)...)
		})
	}
}
