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

// A Part is one MEP of a recording, as InOrder gives it.
type Part struct {
	Entry
	File   string // path of the data file
	Format Format
	Data   []byte // good until the next Part
	// Err is a *Problem where the bytes are not those that were written, or cannot be read: Data is then nil.
	Err error
	// Unproved says that nothing in the index tells whether the bytes are those that were written.
	Unproved bool
}

// InOrder gives the MEPs of a recording from number `from` on, in order, each once: of several copies that with the
// highest attempt, as Merge does. It reads what the indexes prove, in closed and in open segments. Entries with wrong
// checksums are left out, and Read has named them. It holds one MEP and the index entries of some 300,000 in memory. It
// ends with the error of take, of ctx, or of an index that cannot be read.
func (c *Contents) InOrder(ctx context.Context, from uint64, take func(*Part) error) error {
	p, err := newPlan(ctx, c, spanMEPs, true)
	if err != nil {
		return err
	}
	r := &ordered{open: map[int]*os.File{}, p: p}
	defer r.close()
	return p.each(ctx, func(meps []planned) error {
		at, _ := slices.BinarySearchFunc(meps, from, func(m planned, mep uint64) int { return cmp.Compare(m.MEP, mep) })
		for i := range meps[at:] {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := take(r.part(&meps[at+i])); err != nil {
				return err
			}
		}
		return nil
	})
}

// ordered reads the MEPs of a plan.
type ordered struct {
	p      *plan
	open   map[int]*os.File
	recent []int // keys of open, the oldest first
	buf    []byte
	gives  Part
}

// part reads one MEP.
func (r *ordered) part(m *planned) *Part {
	s := r.p.sources[m.source].s
	r.gives = Part{
		Entry:    m.Entry,
		File:     filepath.Join(filepath.Dir(s.index), s.Name),
		Format:   s.ID.Format,
		Unproved: m.unproved,
	}
	data, err := r.read(m, r.gives.File)
	text := "the bytes have been changed"
	if err != nil {
		text = err.Error()
	} else if m.unproved || m.agrees(data) {
		r.gives.Data = data
		return &r.gives
	}
	r.gives.Err = &Problem{
		Kind:   DamagedData,
		File:   s.Name,
		Events: m.events(),
		Text:   fmt.Sprintf("MEP %d at offset %d: %s", m.MEP, m.Offset, text),
	}
	return &r.gives
}

// read reads the bytes of a MEP.
func (r *ordered) read(m *planned, path string) ([]byte, error) {
	if m.Length > math.MaxInt32 {
		return nil, fmt.Errorf("%d bytes are more than the %d that are accepted", m.Length, math.MaxInt32)
	}
	f, err := r.file(m.source, path)
	if err != nil {
		return nil, err
	}
	r.buf = slices.Grow(r.buf[:0], int(m.Length))[:m.Length]
	_, err = f.ReadAt(r.buf, m.Offset)
	return r.buf, err
}

// file opens a segment, and closes the one that was opened longest ago where too many are open.
func (r *ordered) file(source int, path string) (*os.File, error) {
	if f := r.open[source]; f != nil {
		return f, nil
	}
	if len(r.recent) == maxOpen {
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

func (r *ordered) close() {
	for _, f := range r.open {
		_ = f.Close() // it was read
	}
}
