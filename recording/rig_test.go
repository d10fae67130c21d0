package recording

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"ringlet/event"
	"ringlet/event/pattern"
	"ringlet/testkit/must"
)

const (
	rigSources = 3
	rigPacking = 4
	rigRun     = 123
)

var rigKey = Key{1, 2, 3, 15: 16}

// rigPattern is the rule of the data in test recordings.
var rigPattern = sync.OnceValue(func() *pattern.Pattern {
	p, err := pattern.New(pattern.Config{
		Seed:         1,
		Sources:      rigSources,
		FragmentSize: 40,
		Align:        2,
	})
	if err != nil {
		panic(err)
	}
	return p
})

// mepBytes are the bytes of a MEP in a format.
func mepBytes(t must.TB, f Format, mep uint64, events int) []byte {
	t.Helper()
	p := rigPattern()
	buf := make([]byte, event.MEPHeaderSize(rigSources))
	var sources []uint16
	var offsets []uint32
	var mfps [][]byte
	for s := range uint16(rigSources) {
		mfp := make([]byte, p.MaxMFP(s, events))
		size, _, err := p.FillMFP(mfp, s, mep*rigPacking, events, false)
		must.OK(t, err)
		sources, offsets, mfps = append(sources, s), append(offsets, uint32(len(buf)/4)), append(mfps, mfp[:size])
		buf = append(buf, mfp[:size]...)
	}
	if _, err := event.PutMEPHeader(buf, sources, offsets, uint32(len(buf)/4)); err != nil {
		t.Fatalf("%v", err)
	}
	switch f {
	case FormatMFP:
		return bytes.Join(mfps, nil)
	case FormatMDF:
		return records(t, mep*rigPacking, events)
	default:
		return buf
	}
}

func records(t must.TB, first uint64, events int) (b []byte) {
	t.Helper()
	p := rigPattern()
	for i := range uint64(events) {
		fragments := make([]event.SourceFragment, rigSources)
		for s := range uint16(rigSources) {
			data := make([]byte, p.Size(s, first+i))
			p.Fill(data, s, first+i)
			fragments[s] = event.SourceFragment{
				Version: pattern.Version,
				Source:  s,
				Type:    p.FragmentType(s),
				Data:    data,
			}
		}
		var err error
		b, err = event.AppendRecordFromFragments(b, event.MDFHeader{Run: rigRun, Bunch: uint32(first + i)}, fragments)
		must.OK(t, err)
	}
	return b
}

// rig is a recording in the making.
type rig struct {
	t   must.TB
	dir string
	m   *Manifest
}

func newRig(t must.TB, dir string, format Format) *rig {
	t.Helper()
	r := &rig{t: t, dir: filepath.Join(dir, fmt.Sprintf("run-%06d", rigRun))}
	must.OK(t, os.Mkdir(r.dir, 0o777))
	r.m = &Manifest{
		Version: manifestVersion,
		Run:     rigRun,
		Key:     rigKey,
		ID:      "00112233445566778899aabbccddeeff",
		Format:  format,
		Packing: rigPacking,
	}
	return r
}

// mep is an entry as it is asked for: offsets and checksums come with its bytes.
func mep(k uint64, attempt uint32) Entry {
	return Entry{
		MEP:        k,
		FirstEvent: k * rigPacking,
		Events:     rigPacking,
		Attempt:    attempt,
	}
}

// segment makes the bytes of a segment with these MEPs, and its index.
func (r *rig) segment(id SegmentID, meps ...Entry) (data, index []byte, entries []Entry) {
	h := Header{
		Segment: id,
		Run:     rigRun,
		Key:     rigKey,
		Created: 1,
	}
	index = h.Append(nil)
	for _, e := range meps {
		e.Offset = int64(len(data))
		data = append(data, mepBytes(r.t, id.Format, e.MEP, int(e.Events))...)
		e.Length = int64(len(data)) - e.Offset
		e.CRC = crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))
		index = e.Append(index)
		entries = append(entries, e)
	}
	return data, index, entries
}

// closed adds a closed segment to the recording, and lists it.
func (r *rig) closed(builder int, meps ...Entry) SegmentID {
	r.t.Helper()
	b := r.builder(builder)
	id := SegmentID{
		Builder: builder,
		Number:  len(b.Segments) + 1,
		Format:  r.m.Format,
	}
	data, index, entries := r.segment(id, meps...)
	r.file(id.Name(), data)
	r.file(id.Index(), index)
	var s Segment
	for _, e := range entries {
		s.Add(e)
	}
	s.SetClosed(id, time.Time{})
	b.Segments = append(b.Segments, s)
	return id
}

func (r *rig) builder(index int) *Builder {
	for i := range r.m.Builders {
		if r.m.Builders[i].Index == index {
			return &r.m.Builders[i]
		}
	}
	r.m.Builders = append(r.m.Builders, Builder{Index: index, State: StateFinished})
	return &r.m.Builders[len(r.m.Builders)-1]
}

func (r *rig) file(name string, data []byte) {
	r.t.Helper()
	must.OK(r.t, os.WriteFile(filepath.Join(r.dir, name), data, 0o666))
}

// done writes the manifest and gives the directory.
func (r *rig) done() string {
	r.t.Helper()
	must.OK(r.t, storeManifest(r.dir, r.m))
	return r.dir
}

// verdict says in the manifest that so many events were triggered, and that all but missing are there.
func (r *rig) verdict(triggered, here uint64, missing ...Range) {
	r.m.Verdict = &Verdict{
		Verdict:           "GOOD",
		EndCause:          "stop",
		EventsTriggered:   triggered,
		EventsBuilt:       here,
		EventsInDirectory: here,
		EventsOutput:      here,
		MissingEvents:     missing,
	}
}

// scattered deals MEPs 0 to before n to builders, nearly in order, each with several segments, and every tenth twice.
func (r *rig) scattered(rnd *rand.Rand, builders int, n uint64) {
	r.t.Helper()
	dealt := make([][]Entry, builders)
	for k := range n {
		b := rnd.IntN(builders)
		attempt := uint32(1)
		if rnd.IntN(10) == 0 {
			other := rnd.IntN(builders)
			dealt[other] = append(dealt[other], mep(k, 1))
			attempt = 2
		}
		dealt[b] = append(dealt[b], mep(k, attempt))
	}
	for b, meps := range dealt {
		for i := range meps { // MEPs are finished nearly in order
			if j := min(i+rnd.IntN(4), len(meps)-1); meps[i].MEP != meps[j].MEP {
				meps[i], meps[j] = meps[j], meps[i]
			}
		}
		for len(meps) > 0 {
			k := min(1+rnd.IntN(30), len(meps))
			r.closed(b, meps[:k]...)
			meps = meps[k:]
		}
	}
}
