package event_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"ringlet/event"
	"ringlet/testkit/must"
)

// samplePath is the reference sample: RINGLET_MDF_SAMPLE, relative to the
// project's root, or its default. Tests that need it skip, saying so, without.
func samplePath(t testing.TB) string {
	t.Helper()
	path := os.Getenv("RINGLET_MDF_SAMPLE")
	if path == "" {
		path = "../shared/data/minbias-10.mdf"
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join("..", path)
	}
	if _, err := os.Stat(path); err != nil {
		t.Skipf("SKIPPED: no reference sample (%v); set RINGLET_MDF_SAMPLE", err)
	}
	return path
}

func sample(t testing.TB) []byte {
	t.Helper()
	b, err := os.ReadFile(samplePath(t))
	must.OK(t, err)
	return b
}

func TestSampleIsWhatItsReadmeSays(t *testing.T) {
	b := sample(t)
	f := bytes.NewReader(b)
	r := event.NewUnitReader(f, event.UnitReaderOptions{Verify: true})
	c := event.NewMDFCursor(b, true)
	records, types := 0, map[event.BankType]bool{}
	for {
		unit, err := r.Next()
		record := event.Record(unit)
		mapped, errMapped := c.Next()
		if errors.Is(err, io.EOF) && errors.Is(errMapped, io.EOF) {
			break
		}
		if err != nil || errMapped != nil {
			t.Fatalf("reader: %v, cursor: %v", err, errMapped)
		}
		if !bytes.Equal(record, mapped) || r.Offset() != c.Offset() || r.Index() != c.Index() {
			t.Fatalf("record %d: the reader and the cursor disagree", records)
		}
		if record.StoredChecksum() == 0 || record.ComputedChecksum() != record.StoredChecksum() {
			t.Errorf("record %d: checksum %08x, stored %08x", records, record.ComputedChecksum(), record.StoredChecksum())
		}
		banks := 0
		for bank, err := range event.Banks(record.Payload()) {
			must.OK(t, err)
			banks++
			types[bank.Type()] = true
		}
		if banks < 1235 || banks > 1238 {
			t.Errorf("record %d has %d banks, the sample's README says 1235 to 1238", records, banks)
		}
		records++
	}
	if records != 10 || len(types) != 11 {
		t.Errorf("%d records and %d bank types, the sample's README says 10 and 11", records, len(types))
	}
}

// TestSampleReplays splits each record over streams and puts it together again.
func TestSampleReplays(t *testing.T) {
	b := sample(t)
	for _, streams := range []int{1, 3, 16} {
		var out []byte
		var rb event.Rebuilder
		c := event.NewMDFCursor(b, true)
		for {
			record, err := c.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			must.OK(t, err)
			fragments := split(t, record, func(i int, _ event.Bank) uint16 { return uint16(i * 7 % streams) }, streams)
			out, err = rb.Append(out, fragments)
			must.OK(t, err)
		}
		if !bytes.Equal(out, b) {
			t.Errorf("%d streams: the rebuilt file differs from the sample", streams)
		}
	}
}

// split is what a replay source does: the banks of a record, by cabling, with
// the record bank in front of stream 0.
func split(t testing.TB, record event.Record, cable func(int, event.Bank) uint16, streams int) [][]byte {
	t.Helper()
	fragments := make([][]byte, streams)
	var cabling []uint16
	banks, err := record.Banks()
	must.OK(t, err)
	for i := 0; banks.Next(); i++ {
		s := cable(i, banks.Bank())
		cabling = append(cabling, s)
		fragments[s] = append(fragments[s], banks.RawBank()...)
	}
	if banks.Err() != nil {
		t.Fatal(banks.Err())
	}
	front, err := event.AppendRecordBank(nil, record.Header(), cabling)
	must.OK(t, err)
	fragments[0] = append(front, fragments[0]...)
	return fragments
}
