package source

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"ringlet/event"
	"ringlet/testkit/rootzip"
)

// TestReplayOfCompressedRecords holds that a file replays as the records that were compressed, whichever are.
func TestReplayOfCompressedRecords(t *testing.T) {
	var plain, file [][]byte
	packers := append(rootzip.Packers(), nil)
	for i := range 3 * len(packers) {
		r := record(t, 100+i, 20, 3000)
		if pack := packers[i%len(packers)]; pack != nil {
			file = append(file, reseal(rootzip.Record(r, event.MDFHeaderSize, pack(t, r[event.MDFHeaderSize:]))))
		} else {
			file = append(file, r)
		}
		plain = append(plain, r)
	}
	path, _ := writeMDF(t, file)
	for _, rus := range []int{1, 3} {
		s := openSystem(t, ReplayConfig{Path: path, RUs: rus, Packing: 4, CRC: true})
		got, err := s.readAll()
		if !errors.Is(err, io.EOF) && err != nil {
			t.Fatal(err)
		}
		if want := bytes.Join(plain, nil); !bytes.Equal(got, want) {
			t.Errorf("%d readout units: %d bytes came, %d were recorded", rus, len(got), len(want))
		}
	}
}

// TestReplayOfASpoiledCompressedRecord: what cannot be unpacked is a bad record, though its own checksum is right.
func TestReplayOfASpoiledCompressedRecord(t *testing.T) {
	r := record(t, 100, 20, 3000)
	block := rootzip.Zlib(t, r[event.MDFHeaderSize:])
	block[6]++ // bytes unpacked
	path, _ := writeMDF(t, [][]byte{r, reseal(rootzip.Record(r, event.MDFHeaderSize, block)), r})
	s := openSystem(t, ReplayConfig{Path: path, RUs: 2, Packing: 1, CRC: true})
	_, err := s.readAll()
	var bad *BadRecordError
	if !errors.As(err, &bad) || bad.Record != 1 || !errors.Is(err, event.ErrTruncated) {
		t.Errorf("%v", err)
	}
}
