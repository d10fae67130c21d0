package output

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"go-hep.org/x/hep/groot"
	"go-hep.org/x/hep/groot/rtree"

	"ringlet/event/slowdata"
)

// A SlowRow is a value of slow data of a run.
type SlowRow struct {
	Run uint32
	slowdata.Value
}

// WriteSlow writes a table of slow data to a new file, and syncs it.
func (k *Kind) WriteSlow(path string, rows []SlowRow) error {
	err := k.writeSlow(path, rows)
	if err == nil {
		var f *os.File
		if f, err = os.OpenFile(path, os.O_RDWR, 0); err == nil {
			err = errors.Join(f.Sync(), f.Close())
		}
	}
	if err != nil {
		_ = os.Remove(path) // what is there is not whole
	}
	return written(path, err)
}

// writeSlow writes a table of slow data. Where a library panics, as it does at some values, that is an error.
func (k *Kind) writeSlow(path string, rows []SlowRow) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the library that writes %s files cannot go on: %v", k.Name, p)
		}
	}()
	how := map[string]func(string, []SlowRow) error{"parquet": slowParquet, "root": slowROOT, "jsonl": slowLines,
		"h5": slowHDF5, "npz": slowNPZ}[k.Name]
	return how(path, rows)
}

var slowSchema = arrow.NewSchema([]arrow.Field{
	{Name: "run", Type: arrow.PrimitiveTypes.Uint32},
	{Name: "time", Type: arrow.FixedWidthTypes.Timestamp_us},
	{Name: "received", Type: arrow.FixedWidthTypes.Timestamp_us},
	{Name: "name", Type: arrow.BinaryTypes.String},
	{Name: "value", Type: arrow.PrimitiveTypes.Float64, Nullable: true}, // null: a text
	{Name: "text", Type: arrow.BinaryTypes.String, Nullable: true},      // null: a number
	{Name: "user", Type: arrow.BinaryTypes.String},
}, nil)

func slowParquet(path string, rows []SlowRow) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	props := parquet.NewWriterProperties(parquet.WithCompression(compress.Codecs.Zstd),
		parquet.WithRootRepetition(parquet.Repetitions.Required))
	w, err := pqarrow.NewFileWriter(slowSchema, &keptOpen{f: f}, props, pqarrow.DefaultWriterProps())
	if err != nil {
		return err
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, slowSchema)
	defer b.Release()
	for i := range rows {
		r := &rows[i]
		b.Field(0).(*array.Uint32Builder).Append(r.Run)
		b.Field(1).(*array.TimestampBuilder).Append(arrow.Timestamp(r.Time.UnixMicro()))
		b.Field(2).(*array.TimestampBuilder).Append(arrow.Timestamp(r.Received.UnixMicro()))
		b.Field(3).(*array.StringBuilder).Append(r.Name)
		number, text := b.Field(4).(*array.Float64Builder), b.Field(5).(*array.StringBuilder)
		if r.IsText {
			number.AppendNull()
			text.Append(r.Text)
		} else {
			number.Append(r.Number)
			text.AppendNull()
		}
		b.Field(6).(*array.StringBuilder).Append(r.User)
		if i == len(rows)-1 || i%groupRows == groupRows-1 {
			group := b.NewRecordBatch()
			err = w.Write(group)
			group.Release()
			if err != nil {
				return err
			}
		}
	}
	return w.Close()
}

func slowROOT(path string, rows []SlowRow) (err error) {
	f, err := groot.Create(path)
	if err != nil {
		return err
	}
	var one struct {
		run              uint32
		time, received   int64
		value            float64
		isText           bool
		name, text, user string
	}
	w, err := rtree.NewWriter(f, "slow", []rtree.WriteVar{
		{Name: "run", Value: &one.run},
		{Name: "time_us", Value: &one.time},
		{Name: "received_us", Value: &one.received},
		{Name: "name", Value: &one.name},
		{Name: "value", Value: &one.value},
		{Name: "is_text", Value: &one.isText},
		{Name: "text", Value: &one.text},
		{Name: "user", Value: &one.user},
	}, rtree.WithBasketSize(basketBytes))
	if err != nil {
		return errors.Join(err, f.Close())
	}
	for i := range rows {
		r := &rows[i]
		one.run, one.time, one.received, one.name = r.Run, r.Time.UnixMicro(), r.Received.UnixMicro(), r.Name
		one.value, one.isText, one.text, one.user = r.Number, r.IsText, r.Text, r.User
		if _, err := w.Write(); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	return errors.Join(describeLeaves(), w.Close(), f.Close())
}

func slowLines(path string, rows []SlowRow) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	for i := range rows {
		text := rows[i].AppendJSON(nil)
		run, _ := json.Marshal(rows[i].Run) // cannot fail
		fmt.Fprintf(w, `{"run":%s,%s`, run, text[1:])
	}
	return errors.Join(w.Flush(), f.Close())
}
