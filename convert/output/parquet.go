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

// A row group is read and written whole, so it bounds the memory of both. Readers like groups of some megabytes.
const (
	groupBytes = 16 << 20
	groupRows  = 1 << 18
	rowBytes   = 32 // that a row takes beside its data
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
}, nil)

// columns writes Parquet.
type columns struct {
	f *os.File
	w *pqarrow.FileWriter
	b *array.RecordBuilder

	run, orbit, bunch, size *array.Uint32Builder
	event                   *array.Uint64Builder
	source                  *array.Uint16Builder
	kind, version           *array.Uint8Builder
	missing                 *array.BooleanBuilder
	data                    *array.BinaryBuilder

	rows, bytes int // in the builders
}

func openParquet(path, _ string) (File, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	// Data differ from row to row: a dictionary of them, or their least and greatest, is of no use.
	props := parquet.NewWriterProperties(parquet.WithCompression(compress.Codecs.Zstd),
		parquet.WithMaxRowGroupLength(groupRows), parquet.WithDictionaryFor("data", false),
		parquet.WithStatsFor("data", false))
	// The writer would close its file itself, before it could be synchronised.
	w, err := pqarrow.NewFileWriter(schema, keptOpen{f}, props, pqarrow.DefaultWriterProps())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
	}
	c := &columns{f: f, w: w, b: array.NewRecordBuilder(memory.DefaultAllocator, schema)}
	c.run, c.event = c.b.Field(0).(*array.Uint32Builder), c.b.Field(1).(*array.Uint64Builder)
	c.orbit, c.bunch = c.b.Field(2).(*array.Uint32Builder), c.b.Field(3).(*array.Uint32Builder)
	c.source, c.kind = c.b.Field(4).(*array.Uint16Builder), c.b.Field(5).(*array.Uint8Builder)
	c.version, c.missing = c.b.Field(6).(*array.Uint8Builder), c.b.Field(7).(*array.BooleanBuilder)
	c.size, c.data = c.b.Field(8).(*array.Uint32Builder), c.b.Field(9).(*array.BinaryBuilder)
	return c, nil
}

// keptOpen is a file without its Close.
type keptOpen struct{ f *os.File }

func (k keptOpen) Write(p []byte) (int, error) { return k.f.Write(p) }

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
	c.rows++
	c.bytes += len(r.Data) + rowBytes
	if c.rows >= groupRows || c.bytes >= groupBytes {
		return c.Flush()
	}
	return nil
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
	if err := c.w.Write(group); err != nil {
		return fmt.Errorf("%s: %w", c.f.Name(), err)
	}
	return nil
}

// Close writes the rest and the footer.
func (c *columns) Close() error {
	err := c.Flush()
	if err == nil {
		err = c.w.Close()
	}
	if err == nil {
		err = c.f.Sync()
	}
	c.b.Release()
	return errors.Join(err, c.f.Close())
}

// Abandon closes the file as it is.
func (c *columns) Abandon() {
	c.b.Release()
	_ = c.f.Close()
}
