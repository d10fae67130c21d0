package inspect

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"ringlet/event"
	"ringlet/event/eudaq"
	"ringlet/internal/safeopen"
	"ringlet/recording"
)

// Format is the kind of file.
type Format string

// The formats. The zero Format means FormatAuto.
const (
	FormatAuto Format = "auto" // by the first bytes, then by the file's extension
	FormatMDF  Format = "mdf"
	FormatMEP  Format = "mep"
	FormatMFP  Format = "mfp"

	FormatEUDAQ Format = "eudaq" // events of EUDAQ 2
)

// Mode is what Inspect does with the file.
type Mode string

// The modes. The zero Mode means ModeSummary.
const (
	ModeSummary Mode = "summary"
	ModeDump    Mode = "dump"
	ModeVerify  Mode = "verify"
)

// Options are the options of Inspect.
type Options struct {
	Format Format // zero means FormatAuto
	Mode   Mode   // zero means ModeSummary
	Limit  int    // how many records or packets to read; zero means all
	JSON   bool   // one JSON object (dump: one a line) instead of text
}

// optionError is an invalid option.
type optionError struct {
	Option, Value, Allowed string
}

func (e *optionError) Error() string {
	return fmt.Sprintf("%s %q is not one of %s", e.Option, e.Value, e.Allowed)
}

// BadInputError is an invalid file.
type BadInputError struct {
	Path     string
	Problems int64 // how many were found; summary and dump end at the first problem whose extent is unknown
	First    error // the first problem, a *event.FormatError if its place is known
}

func (e *BadInputError) Error() string {
	if e.Problems == 1 {
		return fmt.Sprintf("%s: %v", e.Path, e.First)
	}
	return fmt.Sprintf("%s: %d problems, the first: %v", e.Path, e.Problems, e.First)
}

// Unwrap gives the first problem, for errors.Is and errors.As.
func (e *BadInputError) Unwrap() error { return e.First }

// visitor handles the units of a file in one mode.
type visitor interface {
	visit(u *unit) error                   // a valid unit, which may be used until the call returns
	noteBad(err error) (proceed bool)      // a bad unit
	noteSkipped(bytes int64)               // bytes left out behind it
	finish(out io.Writer, json bool) error // the end
}

// Inspect looks into the file at path and writes to w what Options ask for.
// It returns *optionError, *BadInputError, ctx's error, or an error of reading
// or writing.
func Inspect(ctx context.Context, w io.Writer, path string, opts Options) error {
	opts, err := opts.normalized()
	if err != nil {
		return err
	}
	f, err := safeopen.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	input, opened, err := limitToIndex(ctx, f, path)
	if err != nil {
		return err
	}
	in := bufio.NewReaderSize(input, 64<<10)
	format := opts.Format
	if format == FormatAuto {
		if format, err = Detect(in, path); err != nil {
			return err
		}
	}
	out := bufio.NewWriter(w)
	if format == FormatEUDAQ {
		return errors.Join(inspectEUDAQ(ctx, out, in, path, opts), out.Flush())
	}
	c := &unitCounts{path: path, format: format, opened: opened}
	var v visitor
	switch opts.Mode {
	case ModeDump:
		v = &dump{unitCounts: c, out: out, json: opts.JSON}
	case ModeVerify:
		v = newVerify(c)
	default:
		v = newSummary(c)
	}
	if err := walk(ctx, newUnits(format, in), v, opts.Limit, c); err != nil {
		return err
	}
	if err := v.finish(out, opts.JSON); err != nil {
		return err
	}
	if err := printOpenNote(out, c, opts.Mode, opts.JSON); err != nil {
		return err
	}
	if err := out.Flush(); err != nil {
		return err
	}
	if c.problems > 0 {
		return &BadInputError{Path: path, Problems: c.problems, First: c.firstProblem}
	}
	return nil
}

// normalized fills in the zero values and refuses unknown ones.
func (o Options) normalized() (Options, error) {
	if o.Format == "" {
		o.Format = FormatAuto
	}
	if o.Mode == "" {
		o.Mode = ModeSummary
	}
	switch o.Format {
	case FormatAuto, FormatMDF, FormatMEP, FormatMFP, FormatEUDAQ:
	default:
		return o, &optionError{"format", string(o.Format), "auto, mdf, mep, mfp, eudaq"}
	}
	switch o.Mode {
	case ModeSummary, ModeDump, ModeVerify:
	default:
		return o, &optionError{"mode", string(o.Mode), "summary, dump, verify"}
	}
	if o.Limit < 0 {
		return o, &optionError{"limit", fmt.Sprint(o.Limit), "0 and above"}
	}
	return o, nil
}

// Detect finds the format by the first bytes, or by the extension if the file is empty or damaged.
func Detect(in *bufio.Reader, path string) (Format, error) {
	head, err := in.Peek(event.BytesToDescribe)
	if err != nil && err != io.EOF {
		return "", fmt.Errorf("cannot read %s: %w", path, err)
	}
	if f := event.DetectFormat(head); f != "" {
		return Format(f), nil
	}
	if eudaq.HasSignature(head) {
		return FormatEUDAQ, nil
	}
	byName := Format(strings.ToLower(strings.TrimPrefix(filepath.Ext(extension(path)), ".")))
	named := byName == FormatMDF || byName == FormatMEP || byName == FormatMFP
	if is, do := event.DescribeForeign(head); is != "" && (!named || is != event.TextDescription) {
		return "", &BadInputError{Path: path, Problems: 1, First: fmt.Errorf(
			"it is no file of MDF, MEP, MFP or EUDAQ 2: it looks like %s; %s", is, do)}
	}
	if named {
		return byName, nil
	}
	return "", &BadInputError{Path: path, Problems: 1, First: fmt.Errorf(
		"neither its first bytes (% X) nor its extension tell whether it holds mdf, mep, mfp or eudaq; name the format",
		head[:min(len(head), 12)])}
}

// walk hands the units of a file to v.
func walk(ctx context.Context, in *unitReader, v visitor, limit int, c *unitCounts) error {
	for limit == 0 || c.units+c.badUnits < int64(limit) {
		if err := ctx.Err(); err != nil {
			return err
		}
		u, err := in.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			c.units++
			c.bytes += int64(u.size())
			if err := v.visit(u); err != nil {
				return err
			}
			continue
		}
		if !isBadInput(err) {
			return err
		}
		c.badUnits++
		if !v.noteBad(err) {
			return nil
		}
		n, err := in.skip()
		if err != nil {
			return err
		}
		v.noteSkipped(n)
	}
	return nil
}

// unitCounts has the counts of every mode.
type unitCounts struct {
	path         string
	format       Format
	opened       *recording.OpenSegment // nil: the file is no open segment
	units        int64                  // valid ones
	badUnits     int64
	bytes        int64 // of valid units
	problems     int64
	firstProblem error
}

// problem counts a problem.
func (c *unitCounts) problem(err error) {
	if c.problems == 0 {
		c.firstProblem = err
	}
	c.problems++
}
