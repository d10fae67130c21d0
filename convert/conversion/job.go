package conversion

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"ringlet/convert/input"
	"ringlet/convert/output"
	"ringlet/event"
)

// bufferedMost is the most bytes that the open tables of a conversion buffer together.
const bufferedMost = 64 << 20

// job is one conversion. It is the Consumer of its input.
type job struct {
	o    Options
	kind *output.Kind

	about    string // describes the data, in each file
	state    state
	dir      string            // OUT.partial
	only     *table            // of a conversion to one file: all rows go there
	tables   map[string]*table // open tables, by folder
	byType   [256]*table       // the same, by type of bank
	buffered int
	since    int64 // bytes read since the last part
}

// table is an open file.
type table struct {
	path     string
	name     string // under the directory
	out      output.File
	buffered int
	rows     uint64
}

// Row writes a row to its table.
func (j *job) Row(r *input.Row) error {
	t := j.only
	if t == nil {
		var err error
		if t, err = j.table(r.Type); err != nil {
			return err
		}
	}
	if err := t.out.Write(r); err != nil {
		return err
	}
	t.rows++
	j.state.Rows++
	j.state.Bytes += int64(len(r.Data))
	if r.Missing() {
		j.state.Missing++
	}
	return j.bound(t)
}

// bound keeps the buffers of all tables within bufferedMost: it flushes the largest one.
func (j *job) bound(t *table) error {
	j.buffered += t.out.Buffered() - t.buffered
	t.buffered = t.out.Buffered()
	if j.buffered <= bufferedMost {
		return nil
	}
	for _, other := range j.tables {
		if other.buffered > t.buffered {
			t = other
		}
	}
	if err := t.out.Flush(); err != nil {
		return err
	}
	j.buffered -= t.buffered
	t.buffered = 0
	return nil
}

// Bad counts a bad unit with Skip; otherwise it ends the conversion with err.
func (j *job) Bad(err *input.BadError) error {
	if !j.o.Skip {
		return err
	}
	j.state.Bad++
	if len(j.state.BadFirst) < badNamed {
		j.state.BadFirst = append(j.state.BadFirst, err.Error())
	}
	if j.o.Bad != nil {
		j.o.Bad(err)
	}
	return nil
}

// Dropped counts a fragment that was left out, since an earlier input has it.
func (j *job) Dropped(source uint16) {
	if j.state.Dropped == nil {
		j.state.Dropped = map[uint16]uint64{}
	}
	j.state.Dropped[source]++
}

// Done counts a unit, and ends the part when it has read PartBytes.
func (j *job) Done(next input.Position, bytes int64) error {
	j.state.Next = next
	j.state.Units++
	j.state.Read += bytes
	j.since += bytes
	if j.o.Progress != nil {
		j.o.Progress(j.state.Result)
	}
	if j.dir == "" || j.since < j.o.PartBytes {
		return nil
	}
	return j.part()
}

// table is the open table of a type of bank.
func (j *job) table(t event.BankType) (*table, error) {
	folder, name := "", "fragments"
	if j.o.Banks {
		if folder = t.String(); folder == fmt.Sprint(uint8(t)) {
			folder = "type-" + folder
		}
		name = folder
	}
	if j.byType[t] != nil {
		return j.byType[t], nil
	}
	open := j.tables[folder]
	if open == nil {
		open = &table{name: filepath.Join(folder, fmt.Sprintf("%05d.%s", j.state.Part, j.kind.Name))}
		open.path = filepath.Join(j.dir, open.name)
		if folder != "" {
			if err := makeItself(filepath.Dir(open.path)); err != nil {
				return nil, err
			}
		}
		var err error
		if open.out, err = j.kind.Open(open.path, name, j.about); err != nil {
			return nil, err
		}
		j.tables[folder] = open
	}
	j.byType[t] = open
	return open, nil
}

// closeAll closes the open tables, and lists them.
func (j *job) closeAll() error {
	for folder, t := range j.tables {
		if err := t.out.Close(); err != nil {
			return err
		}
		delete(j.tables, folder)
		st, err := os.Stat(t.path)
		if err != nil {
			return err
		}
		j.state.Files = append(j.state.Files, made{Name: t.name, Rows: t.rows, Bytes: st.Size()})
		if err := syncDir(filepath.Dir(t.path)); err != nil {
			return err
		}
	}
	j.byType, j.buffered, j.since = [256]*table{}, 0, 0
	return nil
}

// part ends a part: from now on a killed conversion keeps it.
func (j *job) part() error {
	if err := j.closeAll(); err != nil {
		return err
	}
	j.state.Part++
	if err := j.save(); err != nil {
		return err
	}
	if j.o.Part != nil {
		return j.o.Part(j.state.Result)
	}
	return nil
}

// rename gives the complete output its name.
func (j *job) rename(temp string) error {
	if err := place(temp, j.o.Output, j.o.Force); errors.Is(err, os.ErrExist) {
		return &OutputExistsError{j.o.Output, "was made by another process meanwhile; the converted data is dropped or in " +
			temp}
	} else if err != nil {
		return err
	}
	return syncDir(filepath.Dir(j.o.Output))
}
