package transport

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"ringlet/testkit/golden"
	"ringlet/transport/link"
)

func TestHelloGolden(t *testing.T) {
	want := hello{
		version:     5,
		dialler:     3,
		listener:    1,
		view:        0x0102030405060708,
		maxDatagram: 1415,
		credit:      88,
		seqWindow:   512,
		carriers:    newCarrierSet(CarrierQUICGo),
		extension:   []byte{},
	}
	got, err := parseHello(golden.Hex(t, "hello"))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("parsed %+v, %v; want %+v", got, err, want)
	}
	if b := want.marshal(); !bytes.Equal(b, golden.Hex(t, "hello")) {
		t.Errorf("said %x, want %x", b, golden.Hex(t, "hello"))
	}
}

func TestHelloThatCannotWork(t *testing.T) {
	ours := hello{
		version:     link.Version,
		view:        1,
		maxDatagram: 1415,
		credit:      88,
		seqWindow:   512,
		carriers:    newCarrierSet(CarrierQUICGo),
	}
	for name, change := range map[string]func(*hello){
		"small datagram": func(h *hello) { h.maxDatagram = link.MinDatagram - 1 },
		"no credit":      func(h *hello) { h.credit = 0 },
		"no ring":        func(h *hello) { h.seqWindow = 0 },
		"small ring":     func(h *hello) { h.seqWindow, h.credit = 32, 8 },
		"odd ring":       func(h *hello) { h.seqWindow = 100 },
		"ring < credit":  func(h *hello) { h.seqWindow, h.credit = 64, 64 },
		"other carrier":  func(h *hello) { h.carriers = newCarrierSet(CarrierStream) },
		"no carrier":     func(h *hello) { h.carriers = 0 },
	} {
		theirs := ours
		change(&theirs)
		if a, err := ours.negotiate(theirs); err == nil {
			t.Errorf("%s: agreed on %+v", name, a)
		}
	}
	theirs := ours
	theirs.maxDatagram, theirs.credit, theirs.seqWindow = 1200, 1000, 1024
	if a, err := ours.negotiate(theirs); err != nil || a.maxDatagram != 1200 || a.credit != 88 || a.seqWindow != 512 {
		t.Errorf("agreed on %+v, %v", a, err)
	}
}

// FuzzParseHello: whatever a stranger says is refused, or makes a link that can be built.
func FuzzParseHello(f *testing.F) {
	f.Add(golden.Hex(f, "hello"))
	f.Add(golden.Hex(f, "hello")[:5])
	ours := hello{
		version:     link.Version,
		maxDatagram: 1415,
		credit:      88,
		seqWindow:   512,
		carriers:    newCarrierSet(CarrierQUICGo),
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		h, err := parseHello(in)
		var version *link.VersionError
		if errors.As(err, &version) && version.Got == link.Version {
			t.Fatal("this version refused as another")
		}
		if err != nil {
			return
		}
		if a, err := ours.negotiate(h); err == nil {
			link.New(link.Config{MaxDatagram: a.maxDatagram, Credit: a.credit, SeqWindow: a.seqWindow})
		}
	})
}
