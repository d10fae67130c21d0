package output

import (
	"cmp"
	"math"
	"slices"

	"ringlet/convert/arrays"
	"ringlet/convert/input"
)

// arrayFile writes HDF5 or npz: an array for each column. The fragments' bytes stand one behind the other in the array
// "data"; the array "offset" says where those of a row begin.
type arrayFile struct {
	path    string
	f       *arrays.File
	columns [11]*arrays.Array // in the order of columnTypes
	offset  *arrays.Array
	data    *arrays.Array
	at      uint64 // bytes of data
}

// columnTypes are the columns with one number a row.
var columnTypes = [...]struct {
	name string
	of   arrays.Type
}{
	{"run", arrays.Uint32},
	{"event", arrays.Uint64},
	{"orbit", arrays.Uint32},
	{"bunch", arrays.Uint32},
	{"source", arrays.Uint16},
	{"type", arrays.Uint8},
	{"version", arrays.Uint8},
	{"missing", arrays.Bool},
	{"size", arrays.Uint32},
	{"trigger", arrays.Uint64}, // 2^64-1: there is none
	{"stamp", arrays.Uint64},
}

func openHDF5(path, table, about string) (File, error) {
	return openArrays(path, table, about, arrays.HDF5)
}

func openNPZ(path, table, about string) (File, error) {
	return openArrays(path, table, about, arrays.NPZ)
}

func openArrays(path, table, about string, format arrays.Format) (File, error) {
	f, err := arrays.Create(path, format)
	if err != nil {
		return nil, written(path, err)
	}
	f.Describe(about)
	a := &arrayFile{path: path, f: f}
	for i, c := range columnTypes {
		a.columns[i] = f.Add(table, c.name, c.of)
	}
	a.offset, a.data = f.Add(table, "offset", arrays.Uint64), f.AddBulk(table)
	return a, nil
}

// Write adds a row.
func (a *arrayFile) Write(r *input.Row) error {
	row := [len(columnTypes)]uint64{
		uint64(r.Run), r.Event, uint64(r.Orbit), uint64(r.Bunch), uint64(r.Source), uint64(r.Type), uint64(r.Version),
		0, uint64(len(r.Data)), math.MaxUint64, math.MaxUint64,
	}
	if r.Missing() {
		row[7] = 1
	}
	if r.HasTrigger {
		row[9] = r.Trigger
	}
	if r.HasStamp {
		row[10] = r.Stamp
	}
	for i, v := range row {
		if err := a.columns[i].AppendUint(v); err != nil {
			return written(a.path, err)
		}
	}
	err := a.offset.AppendUint(a.at)
	if err == nil {
		err = a.data.Append(r.Data)
	}
	a.at += uint64(len(r.Data))
	return written(a.path, err)
}

// Buffered is the memory of the arrays' buffers.
func (a *arrayFile) Buffered() int { return a.f.Buffered() }

// Flush writes the buffers.
func (a *arrayFile) Flush() error { return written(a.path, a.f.Flush()) }

// Close completes the file and syncs it.
func (a *arrayFile) Close() error { return written(a.path, a.f.Close()) }

// Abandon closes the incomplete file.
func (a *arrayFile) Abandon() { a.f.Abandon() }

func slowHDF5(path string, rows []SlowRow) error { return slowArrays(path, rows, arrays.HDF5) }
func slowNPZ(path string, rows []SlowRow) error  { return slowArrays(path, rows, arrays.NPZ) }

// slowArrays writes slow data: texts are numbers of elements of the arrays names, texts and users, so that a long text
// does not make each row long.
func slowArrays(path string, rows []SlowRow, format arrays.Format) error {
	f, err := arrays.Create(path, format)
	if err != nil {
		return err
	}
	const table = "slow"
	for _, c := range []struct {
		name string
		of   arrays.Type
		get  func(*SlowRow) uint64
	}{
		{"run", arrays.Uint32, func(r *SlowRow) uint64 { return uint64(r.Run) }},
		{"time_us", arrays.Int64, func(r *SlowRow) uint64 { return uint64(r.Time.UnixMicro()) }},
		{"received_us", arrays.Int64, func(r *SlowRow) uint64 { return uint64(r.Received.UnixMicro()) }},
		{"value", arrays.Float64, func(r *SlowRow) uint64 { return math.Float64bits(r.number()) }},
	} {
		a := f.Add(table, c.name, c.of)
		for i := range rows {
			err = cmp.Or(err, a.AppendUint(c.get(&rows[i])))
		}
	}
	for _, c := range []struct {
		name string
		get  func(*SlowRow) string
	}{
		{"name", func(r *SlowRow) string { return r.Name }},
		{"text", func(r *SlowRow) string { return r.Text }},
		{"user", func(r *SlowRow) string { return r.User }},
	} {
		all := make([]string, len(rows))
		for i := range rows {
			all[i] = c.get(&rows[i])
		}
		different := slices.Compact(slices.Sorted(slices.Values(all)))
		a := f.Add(table, c.name, arrays.Uint32)
		for _, s := range all {
			at, _ := slices.BinarySearch(different, s)
			err = cmp.Or(err, a.AppendUint(uint64(at)))
		}
		err = cmp.Or(err, f.AddTexts(table, c.name+"s", different))
	}
	if err != nil {
		f.Abandon()
		return err
	}
	return f.Close()
}

// number is the value, or NaN for a text.
func (r *SlowRow) number() float64 {
	if r.IsText {
		return math.NaN()
	}
	return r.Number
}
