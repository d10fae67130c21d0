package conversion

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"ringlet/convert/input"
	"ringlet/convert/output"
	"ringlet/internal/safeopen"
	"ringlet/lab/inspect"
)

// Options are the options of Run.
type Options struct {
	Inputs []string
	Format string // of the inputs that are files: mdf, mep, mfp; empty or auto: by their first bytes
	Output string
	To     string // name of a kind; empty: by the extension of Output, parquet for a directory
	Banks  bool   // unfold containers into banks; in a directory, write a table for each type
	Skip   bool   // leave bad units out; otherwise the first one ends the conversion
	Force  bool   // replace the output, and begin anew
	Run    uint32 // run number for data without one
	// Program is the version of the converter, for the description of the data.
	Program string
	Once    bool // leave out fragments that an earlier input has; takes several runs

	MaxUnit   int   // largest record or packet, bytes
	PartBytes int64 // bytes of input in a part of a directory

	Progress func(Result)            // after each unit; may be nil
	Bad      func(*input.BadError)   // for each unit that is left out; may be nil
	Part     func(done Result) error // after each complete part; may be nil
}

// Result counts what was converted.
type Result struct {
	Read    int64  `json:"read_bytes"`
	Total   int64  `json:"total_bytes"`
	Units   uint64 `json:"units"` // records, MEPs or MFPs
	Rows    uint64 `json:"rows"`
	Missing uint64 `json:"missing"` // rows of missing fragments
	Bytes   int64  `json:"data_bytes"`
	Bad     uint64 `json:"bad"` // units left out, and containers that were not unfolded
	// Dropped counts, by source, fragments that were left out, since an earlier input has them (Once).
	Dropped map[uint16]uint64 `json:"dropped,omitempty"`

	SlowValues uint64 `json:"slow_values,omitempty"` // of slow data, in a table of their own, each once
	SlowBroken uint64 `json:"slow_broken,omitempty"` // lines of slow data that are no values

	Resumed int64 `json:"-"` // bytes of input that a killed conversion had done
}

// An OutputExistsError is an existing output that may not be replaced.
type OutputExistsError struct{ Path, Why string }

func (e *OutputExistsError) Error() string { return e.Path + " " + e.Why }

// partialSuffix ends the name of an incomplete output.
const partialSuffix = ".partial"

// Run converts. Errors: *NameError, *OutputExistsError, *input.BadError without Skip, *input.LiveError, the error of
// ctx, and errors of the system.
func Run(ctx context.Context, o Options) (Result, error) {
	kind, single, err := o.kind()
	o.Output = filepath.Clean(o.Output)
	if err != nil {
		return Result{}, err
	}
	o.Output = filepath.Clean(o.Output)
	if err := o.free(kind, single); err != nil {
		return Result{}, err
	}
	in, err := input.Open(ctx, o.Inputs, input.Options{
		Format:  inspect.Format(o.Format),
		Banks:   o.Banks,
		Run:     o.Run,
		MaxUnit: o.MaxUnit,
		Once:    o.Once,
	})
	if err != nil {
		return Result{}, err
	}
	j := &job{o: o, kind: kind, tables: map[string]*table{}}
	about, err := json.Marshal(description{Converter: o.Program, Inputs: o.Inputs, Runs: in.Runs})
	if err != nil {
		return Result{}, err
	}
	j.about, j.state.About = string(about), about
	j.state.Total = in.Bytes
	j.state.Settings = settings{
		Inputs: in.Print,
		To:     kind.Name,
		Banks:  o.Banks,
		Run:    o.Run,
		Once:   o.Once,
	}
	if single {
		return j.file(ctx, in)
	}
	return j.directory(ctx, in)
}

// description is the text about the data that each file has, in JSON.
type description struct {
	Converter string      `json:"converter"` // version
	Inputs    []string    `json:"inputs"`
	Runs      []input.Run `json:"runs,omitempty"`
}

// A NameError is an output whose name does not say what to make.
type NameError struct{ Path, Why string }

func (e *NameError) Error() string { return e.Path + " " + e.Why }

// kind is the kind of the output, and whether it is a single file. A name that ends with / is a directory. An unknown
// ending is refused: a user who asks for x.csv does not want a directory of Parquet.
func (o *Options) kind() (k *output.Kind, single bool, err error) {
	base := filepath.Base(o.Output)
	if strings.HasSuffix(o.Output, "/") {
		base = "" // a directory, whatever its name
	}
	ext := strings.TrimPrefix(filepath.Ext(strings.TrimLeft(base, ".")), ".")
	k, err = output.KindOf(ext)
	switch {
	case err == nil && o.To != "" && o.To != k.Name:
		return nil, false, &NameError{o.Output, fmt.Sprintf("ends with .%s, and the format is %s: give it the ending .%[2]s",
			ext, o.To)}
	case err == nil:
		return k, true, nil
	case o.To == "" && ext != "":
		return nil, false, &NameError{o.Output, fmt.Sprintf("has the ending .%s, which this program does not write: a "+
			"file ends with %s; a directory ends with /", ext, output.Endings())}
	case o.To == "":
		k, err = output.KindOf("parquet")
	default:
		k, err = output.KindOf(o.To)
	}
	return k, false, err
}

// free refuses an existing output that may not be replaced, before any work is done for it.
func (o *Options) free(kind *output.Kind, single bool) error {
	if single {
		return errors.Join(o.freeFile(o.Output), o.freeFile(o.slowFile(kind)))
	}
	switch _, err := os.Lstat(o.Output); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !o.Force:
		return &OutputExistsError{o.Output, thereAlready}
	}
	if _, err := safeopen.StatNoFollow(filepath.Join(o.Output, journalName)); err != nil {
		return &OutputExistsError{o.Output,
			"was not made by a conversion, and --force replaces only what was: give another name"}
	}
	return nil
}

const thereAlready = "is there already: give another name, or --force to replace it"

// freeFile refuses an existing file that may not be replaced.
func (o *Options) freeFile(path string) error {
	switch st, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !st.Mode().IsRegular():
		return &OutputExistsError{path, "is not a file, so no file can replace it: give another name"}
	case !o.Force:
		return &OutputExistsError{path, thereAlready}
	}
	return nil
}

// slowFile is the file with the table of slow data of a single file: x.slow.parquet beside x.parquet.
func (o *Options) slowFile(kind *output.Kind) string {
	ending := "." + kind.Name
	return strings.TrimSuffix(o.Output, ending) + ".slow" + ending
}

// file converts to one file.
func (j *job) file(ctx context.Context, in *input.Inputs) (Result, error) {
	temp := j.o.Output + partialSuffix
	lock, err := safeopen.OpenFileNoFollow(temp, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return Result{}, err
	}
	defer func() { _ = lock.Close() }() // held only for its lock
	if err := seize(lock); err != nil {
		return Result{}, err
	}
	t := &table{path: temp}
	j.only = t
	if t.out, err = j.kind.Open(temp, "fragments", j.about); err == nil {
		err = in.Each(ctx, input.Position{}, j)
	}
	switch {
	case err == nil:
		err = t.out.Close()
	case t.out != nil:
		t.out.Abandon()
	}
	if err == nil {
		err = j.placeSlow()
	}
	if err == nil {
		err = j.rename(temp)
	}
	if err != nil {
		return j.state.Result, errors.Join(err, os.Remove(temp))
	}
	return j.state.Result, nil
}
