package frames

import (
	"bytes"
	"context"
	"encoding/binary"
	"strings"
	"testing"

	"ringlet/source/live"
	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
)

// TestLargeFrames: fragments as large as the input declares come through a store that has room for hardly two of them;
// a larger one is refused by its header, and so is a front-end that announces one.
func TestLargeFrames(t *testing.T) {
	set := settings("127.0.0.1:0")
	set.MaxFragment = 12 << 20
	got, err := OpenTCP(t.Context(), set)
	must.OK(t, err)
	defer got.Close()
	f := got.(*feed)
	p, a := connect(t, f, plain)
	if int(a.D) != set.MaxFragment || int(a.C) != len(f.store.mem) {
		t.Errorf("%+v", a)
	}
	large := bytes.Repeat([]byte("0123456789ab"), 1<<20)
	sizes := []int{len(large), 7, len(large), len(large) - 1, 0, len(large)}
	sent := make(chan error, 1)
	go func() {
		var err error
		for e, n := range sizes {
			if err == nil {
				_, err = p.Write(appendFrame(nil, frame{Event: uint64(e), Data: large[:n]}))
			}
		}
		head := appendFrame(nil, frame{Event: 6})
		binary.LittleEndian.PutUint32(head[8:], uint32(len(large)+1))
		if err == nil {
			_, err = p.Write(head)
		}
		sent <- err
	}()
	ctx, cancel := context.WithTimeout(t.Context(), patiently.LongTimeout)
	defer cancel()
	dst := make([]live.Fragment, 1)
	for e, n := range sizes {
		_, err := f.Next(ctx, dst)
		must.OK(t, err)
		if dst[0].Event != uint64(e) || !bytes.Equal(dst[0].Data, large[:n]) {
			t.Fatalf("event %d has %d bytes, where event %d of %d is due", dst[0].Event, len(dst[0].Data), e, n)
		}
		f.ReleaseFragments(1)
	}
	must.OK(t, patiently.Receive(t, sent, "the front-end could not send"))
	const why = "12582912 are the most: put ?max=12582913"
	if a := p.answer(); a.Code != codeBadFormat || !strings.Contains(a.Sentence, why) {
		t.Errorf("%+v", a)
	}
	p.closed()
	h := plain
	h.MaxFragmentBytes = 12<<20 + 1
	if _, a := connect(t, f, h); a.Code != codeBadFormat || !strings.Contains(a.Sentence, "?max=12582913") {
		t.Errorf("%+v", a)
	}
}
