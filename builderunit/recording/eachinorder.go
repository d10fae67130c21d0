package recording

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"

	"ringlet/internal/safeopen"
)

// A RecordedMEP is one MEP of a recording, as EachInOrder gives it.
type RecordedMEP struct {
	Entry
	File   string // path of the data file
	Format Format
	Data   []byte // good until the next RecordedMEP
	// Err is a *Problem where the bytes are not those that were written, or cannot be read: Data is then nil.
	Err error
	// Unproven says that nothing in the index tells whether the bytes are those that were written.
	Unproven bool
}

// EachInOrder gives the MEPs of a recording from number `from` on, in order, each once: of several copies that with the
// highest attempt, as Merge does. It reads what the indexes prove, in closed and in open segments. Entries with wrong
// checksums are left out, and Read has named them. It holds one MEP and the index entries of some 300,000 in memory. It
// ends with the error of visit, of ctx, or of an index that cannot be read.
func (c *Contents) EachInOrder(ctx context.Context, from uint64, visit func(*RecordedMEP) error) error {
	p, err := newPlan(ctx, c, spanMEPs, true)
	if err != nil {
		return err
	}
	r := &orderedReader{open: map[int]*os.File{}, p: p}
	defer r.close()
	return p.eachSpan(ctx, func(meps []plannedMEP) error {
		at, _ := slices.BinarySearchFunc(meps, from, func(m plannedMEP, mep uint64) int { return cmp.Compare(m.MEP, mep) })
		for i := range meps[at:] {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := visit(r.readMEP(&meps[at+i])); err != nil {
				return err
			}
		}
		return nil
	})
}

// orderedReader reads the MEPs of a plan.
type orderedReader struct {
	p       *mergePlan
	open    map[int]*os.File
	recent  []int // keys of open, the oldest first
	buf     []byte
	current RecordedMEP
}

// readMEP reads one MEP.
func (r *orderedReader) readMEP(m *plannedMEP) *RecordedMEP {
	s := r.p.segments[m.segmentIndex].contents
	r.current = RecordedMEP{
		Entry:    m.Entry,
		File:     filepath.Join(filepath.Dir(s.indexPath), s.Name),
		Format:   s.ID.Format,
		Unproven: m.unproven,
	}
	data, err := r.read(m, r.current.File)
	text := "the bytes have been changed"
	if err != nil {
		text = err.Error()
	} else if m.unproven || m.matches(data) {
		r.current.Data = data
		return &r.current
	}
	r.current.Err = &Problem{
		Kind:   DamagedData,
		File:   s.Name,
		Events: m.eventRange(),
		Text:   fmt.Sprintf("MEP %d at offset %d: %s", m.MEP, m.Offset, text),
	}
	return &r.current
}

// read reads the bytes of a MEP.
func (r *orderedReader) read(m *plannedMEP, path string) ([]byte, error) {
	if m.Length > math.MaxInt32 {
		return nil, fmt.Errorf("%d bytes are more than the %d that are accepted", m.Length, math.MaxInt32)
	}
	f, err := r.openFile(m.segmentIndex, path)
	if err != nil {
		return nil, err
	}
	r.buf = slices.Grow(r.buf[:0], int(m.Length))[:m.Length]
	_, err = f.ReadAt(r.buf, m.Offset)
	return r.buf, err
}

// openFile opens a segment, and closes the one that was opened longest ago where too many are open.
func (r *orderedReader) openFile(source int, path string) (*os.File, error) {
	if f := r.open[source]; f != nil {
		return f, nil
	}
	if len(r.recent) == maxOpenFiles {
		_ = r.open[r.recent[0]].Close() // it was read
		delete(r.open, r.recent[0])
		r.recent = r.recent[1:]
	}
	f, err := safeopen.OpenNoFollow(path)
	if err != nil {
		return nil, err
	}
	r.open[source], r.recent = f, append(r.recent, source)
	return f, nil
}

func (r *orderedReader) close() {
	for _, f := range r.open {
		_ = f.Close() // it was read
	}
}
