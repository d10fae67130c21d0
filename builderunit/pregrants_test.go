package builderunit

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"ringlet/builderunit/sink"
	"ringlet/event/placing"
	"ringlet/shmem"
	"ringlet/tagnet/core"
)

// rewriter is a readout unit that goes on writing its part of a slot, by its standing grant, while the builder unit
// works on it.
type rewriter struct {
	r     *preGrantedRig
	p     *piece
	first int // how many times it lets pass before it writes
	times int
}

// rewrite puts junk in the place of the part but for its entries: every count, size and offset becomes as large as can
// be.
func (w *rewriter) rewrite() {
	if w.times++; w.times <= w.first {
		return
	}
	rank := w.r.ranks[w.p.ru]
	ref := w.r.windows.refsOfRank(rank)[0]
	dst, v := w.r.table.Acquire(shmem.Peer(rank), ref, 0, uint32(len(w.p.data)), shmem.AccessNwrite)
	if v != 0 {
		w.r.t.Errorf("the grant does not stand: %v", v)
		return
	}
	for i := rigDivision.SourceCount(w.p.ru) * placing.EntrySize; i < len(dst); i++ {
		dst[i] = 0xFF
	}
	w.r.table.Release(ref)
}

// TestAPeerThatGoesOnWriting rewrites a part whenever the CRC of an MFP was found good, and whenever a header was, as a
// readout unit that is not correct may: the unit neither panics nor keeps anything but what it has verified. Where
// nothing is kept or parsed, a CRC or a header that is read after that may tell; nobody else notices.
func TestAPeerThatGoesOnWriting(t *testing.T) {
	other := newPreGrantedRig(t, 1, nil)
	other.buildPreGranted(0, 3)
	other.result()
	other.close()
	want := other.sink.meps[0]
	for _, kind := range []Verify{VerifyCRC, VerifyFull} {
		for _, replayed := range []bool{false, true} {
			for _, keeps := range []bool{true, false} {
				for ru := range 3 {
					for _, first := range []int{0, 1, 2, 3, 4, 5, 7, 11} {
						t.Run(fmt.Sprintf("verify %d, replayed %v, kept %v, part %d, %d", kind, replayed, keeps, ru, first),
							func(t *testing.T) {
								tryRewriter(t, kind, replayed, keeps, &rewriter{p: &piece{ru: ru}, first: first}, want)
							})
					}
				}
			}
		}
	}
}

func tryRewriter(t *testing.T, kind Verify, replayed, keeps bool, w *rewriter, want []byte) {
	r := newPreGrantedRig(t, 1, func(_ *rig, c *Config) {
		c.Verify = kind
		if replayed {
			c.Pattern = nil // the fragments are no banks: what there is to see is that full says so
		}
		if !keeps {
			c.Sink = &sink.Discard{}
		}
	})
	w.r, w.p = r, r.part(w.p.ru, 3)
	r.b.finisher.verify.hook = w.rewrite
	for i, rank := range r.ranks {
		r.b.Placed(rank, r.place(r.part(i, 3), 0, 3, 1))
	}
	var res *MEPResult
	var fault *DataError
	select {
	case got := <-r.results:
		res = &got
	case err := <-r.failed:
		if !errors.As(err, &fault) {
			t.Errorf("%v", err)
		}
	case <-time.After(testTimeout):
		t.Fatal("neither a result nor a failure")
	}
	copied := kind == VerifyFull || keeps
	switch {
	case res != nil && (res.Outcome != core.Built || res.Events != rigPacking):
		t.Errorf("%+v", res)
	case kind == VerifyFull && replayed && fault == nil:
		t.Error("rubbish was taken for banks")
	case copied && !(kind == VerifyFull && replayed) && fault != nil:
		t.Errorf("what was good when it was copied is refused: %v", fault)
	}
	if w.times == 0 {
		t.Error("the part was never rewritten")
	}
	r.close()
	for _, mep := range r.sink.meps {
		if !bytes.Equal(mep, want) {
			t.Error("what was kept is not what was verified")
		}
	}
	if keeps && fault == nil && len(r.sink.meps) != 1 {
		t.Errorf("%d MEPs were kept", len(r.sink.meps))
	}
}
