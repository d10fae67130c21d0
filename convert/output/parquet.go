package output

import (
	"errors"
	"fmt"
	"os"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"ringlet/convert/input"
)

// Limits of a row group. Writers and readers hold a whole group in memory; some megabytes suit readers well.
const (
	groupBytes = 16 << 20
	groupRows  = 1 << 18
	rowBytes   = 48 // bytes of a row besides its data
)

var schema = arrow.NewSchema([]arrow.Field{
	{Name: "run", Type: arrow.PrimitiveTypes.Uint32},
	{Name: "event", Type: arrow.PrimitiveTypes.Uint64},
	{Name: "orbit", Type: arrow.PrimitiveTypes.Uint32},
	{Name: "bunch", Type: arrow.PrimitiveTypes.Uint32},
	{Name: "source", Type: arrow.PrimitiveTypes.Uint16},
	{Name: "type", Type: arrow.PrimitiveTypes.Uint8},
	{Name: "version", Type: arrow.PrimitiveTypes.Uint8},
	{Name: "missing", Type: arrow.FixedWidthTypes.Boolean},
	{Name: "size", Type: arrow.PrimitiveTypes.Uint32},
	{Name: "data", Type: arrow.BinaryTypes.Binary},
	{Name: "trigger", Type: arrow.PrimitiveTypes.Uint64, Nullable: true},
	{Name: "stamp", Type: arrow.PrimitiveTypes.Uint64, Nullable: true},
}, nil)

// columns writes Parquet.
type columns struct {
	f *os.File
	w *pqarrow.FileWriter
	b *array.RecordBuilder

	run, orbit, bunch, size *array.Uint32Builder
	event, trigger, stamp   *array.Uint64Builder
	source                  *array.Uint16Builder
	kind, version           *array.Uint8Builder
	missing                 *array.BooleanBuilder
	data                    *array.BinaryBuilder

	rows, bytes int // in the builders
}

func openParquet(path, _, about string) (File, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	// Data differ from row to row: a dictionary or minimum and maximum would be useless.
	props := parquet.NewWriterProperties(parquet.WithCompression(compress.Codecs.Zstd),
		parquet.WithMaxRowGroupLength(groupRows), parquet.WithDictionaryFor("data", false),
		parquet.WithStatsFor("data", false), parquet.WithRootRepetition(parquet.Repetitions.Required))
	w, err := begun(f, props)
	if err == nil {
		err = w.AppendKeyValueMetadata("about", about)
	}
	if err != nil {
		return nil, errors.Join(written(path, err), f.Close())
	}
	c := &columns{f: f, w: w, b: array.NewRecordBuilder(memory.DefaultAllocator, schema)}
	c.run, c.event = c.b.Field(0).(*array.Uint32Builder), c.b.Field(1).(*array.Uint64Builder)
	c.orbit, c.bunch = c.b.Field(2).(*array.Uint32Builder), c.b.Field(3).(*array.Uint32Builder)
	c.source, c.kind = c.b.Field(4).(*array.Uint16Builder), c.b.Field(5).(*array.Uint8Builder)
	c.version, c.missing = c.b.Field(6).(*array.Uint8Builder), c.b.Field(7).(*array.BooleanBuilder)
	c.size, c.data = c.b.Field(8).(*array.Uint32Builder), c.b.Field(9).(*array.BinaryBuilder)
	c.trigger, c.stamp = c.b.Field(10).(*array.Uint64Builder), c.b.Field(11).(*array.Uint64Builder)
	return c, nil
}

// begun begins a file. It turns the panic of the library that cannot write the first bytes into an error.
func begun(f *os.File, props *parquet.WriterProperties) (w *pqarrow.FileWriter, err error) {
	kept := &keptOpen{f: f}
	defer func() {
		if p := recover(); p != nil {
			err = errors.Join(kept.failed, fmt.Errorf("the library that writes Parquet cannot begin: %v", p))
		}
	}()
	return pqarrow.NewFileWriter(schema, kept, props, pqarrow.DefaultWriterProps())
}

// keptOpen is a file without Close: the writer would close the file before columns.Close can sync it.
type keptOpen struct {
	f      *os.File
	failed error // of the last write that failed
}

func (k *keptOpen) Write(p []byte) (int, error) {
	n, err := k.f.Write(p)
	if err != nil {
		k.failed = err
	}
	return n, err
}

// Write adds a row, and writes a row group when one is full.
func (c *columns) Write(r *input.Row) error {
	c.run.Append(r.Run)
	c.event.Append(r.Event)
	c.orbit.Append(r.Orbit)
	c.bunch.Append(r.Bunch)
	c.source.Append(r.Source)
	c.kind.Append(uint8(r.Type))
	c.version.Append(r.Version)
	c.missing.Append(r.Missing())
	c.size.Append(uint32(len(r.Data)))
	c.data.Append(r.Data)
	appendWord(c.trigger, r.HasTrigger, r.Trigger)
	appendWord(c.stamp, r.HasStamp, r.Stamp)
	c.rows++
	c.bytes += len(r.Data) + rowBytes
	if c.rows >= groupRows || c.bytes >= groupBytes {
		return c.Flush()
	}
	return nil
}

func appendWord(to *array.Uint64Builder, has bool, word uint64) {
	if has {
		to.Append(word)
	} else {
		to.AppendNull()
	}
}

// Buffered is the bytes in the builders.
func (c *columns) Buffered() int { return c.bytes }

// Flush writes a row group.
func (c *columns) Flush() error {
	if c.rows == 0 {
		return nil
	}
	group := c.b.NewRecordBatch()
	defer group.Release()
	c.rows, c.bytes = 0, 0
	return written(c.f.Name(), c.w.Write(group))
}

// Close writes the rest and the footer.
func (c *columns) Close() error {
	err := c.Flush()
	if err == nil {
		err = written(c.f.Name(), c.w.Close())
	}
	if err == nil {
		err = written(c.f.Name(), c.f.Sync())
	}
	c.b.Release()
	return errors.Join(err, c.f.Close())
}

// Abandon closes the incomplete file.
func (c *columns) Abandon() {
	c.b.Release()
	_ = c.f.Close()
}
