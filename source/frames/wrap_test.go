package frames

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"
	"time"

	"ringlet/source/live"
	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
)

// TestFramesOfACounter: all that a front-end with a counter of 4 bits sends is handed out with its own numbers, also
// after a break; it is answered in 64 bits.
func TestFramesOfACounter(t *testing.T) {
	set := settings("127.0.0.1:0")
	set.WrapBits = 4
	got, err := OpenTCP(t.Context(), set)
	must.OK(t, err)
	defer got.Close()
	f := got.(*feed)
	ctx, cancel := context.WithTimeout(t.Context(), patiently.LongTimeout)
	defer cancel()
	var seen []uint64
	take := func(n int) {
		t.Helper()
		dst := make([]live.Fragment, 8)
		for range n {
			k, err := f.Next(ctx, dst[:1])
			must.OK(t, err)
			seen = append(seen, dst[0].Event)
			f.SetResumeEvent(uint64(len(seen)))
			f.ReleaseFragments(k)
		}
	}
	p, _ := connect(t, f, plain)
	for e := range uint64(20) {
		p.send(appendFrame(nil, frame{Event: e % 16, Data: data(e)}))
	}
	take(20)
	must.OK(t, p.Close())
	for f.Stats().FrontendsGone == 0 { // the feed has no event for that
		time.Sleep(time.Millisecond)
	}
	p, a := connect(t, f, plain)
	if a.Code != codeAccepted || a.A != 20 {
		t.Errorf("%+v", a)
	}
	for e := uint64(20); e < 40; e++ {
		p.send(appendFrame(nil, frame{Event: e % 16, Data: data(e)}))
	}
	p.send(endFrame(40 % 16))
	take(20)
	var want []uint64
	for e := range uint64(40) {
		want = append(want, e%16)
	}
	if !slices.Equal(seen, want) {
		t.Errorf("%v", seen)
	}
	if _, err := f.Next(ctx, make([]live.Fragment, 1)); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	f.SetSafeBelow(40)
	if a := p.answer(); a.Code != codeEndReceived || a.A != 8 {
		t.Errorf("%+v", a)
	}
	if a := p.answer(); a.Code != codeAcknowledged || a.A != 40 {
		t.Errorf("%+v", a)
	}
	if s := f.Stats(); s.Fragments != 40 || s.Repeated > 0 {
		t.Errorf("%+v", s)
	}
}
