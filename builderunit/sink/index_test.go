package sink

import (
	"bytes"
	"path/filepath"
	"testing"
)

// goldenIndex is written by hand from the layout in docs/design/006: two MEPs of an MDF part of 300 bytes, one superseded. Its
// CRC-32C was computed by a bit-by-bit program that shares nothing with hash/crc32 (see crcByHand).
var goldenIndex = []byte{
	'R', 'N', 'G', 'L', 'I', 'N', 'D', 'X', // magic
	1, 0, 0, 0, // version
	2, 0, 0, 0, // MDF
	0x2C, 1, 0, 0, 0, 0, 0, 0, // 300 bytes
	2, 0, 0, 0, 0, 0, 0, 0, // two entries
	1, 0, 0, 0, 0, 0, 0, 0, // one superseded
	5, 0, 0, 0, 0, 0, 0, 0, // MEP 5
	0xC8, 0, 0, 0, 0, 0, 0, 0, // at 200
	100, 0, 0, 0, 0, 0, 0, 0, // of 100 bytes
	4, 0, 0, 0, // four events
	1, 0, 0, 0, // second attempt
	7, 0, 0, 0, 0, 0, 0, 0, // MEP 7
	0, 0, 0, 0, 0, 0, 0, 0, // at 0
	0xC8, 0, 0, 0, 0, 0, 0, 0, // of 200 bytes
	3, 0, 0, 0, // three events
	0, 0, 0, 0, // first attempt
}

// crcByHand is CRC-32C as it is defined: reflected, polynomial 0x1EDC6F41, one bit at a time.
func crcByHand(b []byte) uint32 {
	crc := ^uint32(0)
	for _, c := range b {
		crc ^= uint32(c)
		for range 8 {
			crc = crc>>1 ^ 0x82F63B78*(crc&1)
		}
	}
	return ^crc
}

func TestIndexGolden(t *testing.T) {
	if crcByHand([]byte("123456789")) != 0xE3069283 { // the check value of CRC-32C
		t.Fatal("crcByHand is wrong")
	}
	sum := crcByHand(goldenIndex)
	want := append(bytes.Clone(goldenIndex), byte(sum), byte(sum>>8), byte(sum>>16), byte(sum>>24))
	entries := []entry{{mep: 5, offset: 200, length: 100, events: 4, attempt: 1}, {mep: 7, offset: 0, length: 200, events: 3}}

	path := filepath.Join(t.TempDir(), "x.idx")
	out, err := createTemp(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = out.remove() }()
	if err := writeIndex(out, MDF, 300, 1, entries); err != nil {
		t.Fatal(err)
	}
	if err := out.commit(); err != nil || !bytes.Equal(read(t, path), want) {
		t.Fatalf("%v\ngot  %x\nwant %x", err, read(t, path), want)
	}
	x, err := openIndex(path, 300)
	if err != nil || x.superseded != 1 || x.format != MDF {
		t.Fatal(err)
	}
	defer func() { _ = x.close() }()
	for _, e := range entries {
		if got, ok, err := x.next(); err != nil || !ok || got != e {
			t.Errorf("%+v %v %v", got, ok, err)
		}
	}
	if _, ok, err := x.next(); ok || err != nil {
		t.Error(ok, err)
	}
}
