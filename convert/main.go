package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"reflect"
	"time"

	"github.com/alecthomas/kong"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"ringlet/convert/conversion"
	"ringlet/convert/input"
	"ringlet/internal/decimal"
)

const (
	exitError = 1
	exitUsage = 2
	exitInput = 3
)

// version is set when the program is built.
var version = "unknown"

type cli struct {
	Inputs []string `arg:"" name:"input" help:"Files of MDF records, MEPs or MFPs, or one directory of a run; with --once several."`
	Output string   `short:"o" required:"" placeholder:"PATH" help:"What to make: a file (x.parquet, x.root, x.jsonl, x.h5, x.npz), or a directory of parts, with which a killed conversion goes on."`

	Format      string           `default:"auto" enum:"auto,mdf,mep,mfp" help:"What the files hold: ${enum}."`
	To          string           `placeholder:"KIND" default:"" enum:",parquet,root,jsonl,h5,npz" help:"What a directory holds: parquet (the default), root, jsonl, h5 or npz."`
	Banks       bool             `help:"Take containers of replayed records apart into banks; in a directory, a table for each type of bank."`
	Once        bool             `help:"Join several runs of one measurement: a fragment (source and event) that an earlier input has is left out and counted."`
	OnBadRecord string           `enum:"stop,skip" default:"stop" help:"What to do about damaged input: ${enum}. skip counts and names what it leaves out."`
	RunNumber   uint32           `help:"Number of the run, for files that do not say it."`
	PartSize    int64            `default:"1024" help:"Parts of a directory hold about so much of the input, MiB."`
	MaxRecord   int              `default:"256" help:"The largest record or packet that is taken, MiB: memory grows with it."`
	Force       bool             `help:"Replace the output if it is there, and begin anew where a conversion was killed."`
	Quiet       bool             `help:"Print nothing but errors."`
	Version     kong.VersionFlag `help:"Print the version."`
}

func main() { os.Exit(run(os.Args[1:], os.Stderr, term.IsTerminal(int(os.Stderr.Fd())))) }

// run is the program. All its output goes to stderr.
func run(args []string, stderr io.Writer, terminal bool) int {
	var c cli
	exitCode := -1 // the code with which kong wants to exit
	decimal := kong.MapperFunc(decimalNumber)
	parser, err := kong.New(&c, kong.Name("ringlet-convert"), kong.Vars{"version": version},
		kong.Description("Makes Parquet, ROOT, HDF5, NumPy and JSON lines of recorded data."),
		kong.Exit(func(code int) { exitCode = code }),
		kong.KindMapper(reflect.Int, decimal), kong.KindMapper(reflect.Int64, decimal), kong.KindMapper(reflect.Uint32,
			decimal))
	if err != nil {
		panic(err)
	}
	k, err := parser.Parse(args)
	switch {
	case exitCode >= 0:
		return exitCode
	case err == nil && checkNoRepeats(k) != nil:
		err = checkNoRepeats(k)
	case err == nil && (c.PartSize < 1 || c.MaxRecord < 1 || c.MaxRecord > 2047):
		err = fmt.Errorf("--part-size is %d and --max-record %d: give --part-size 1 or above, --max-record 1 to 2047",
			c.PartSize, c.MaxRecord)
	}
	if err != nil {
		fmt.Fprintf(stderr, "ringlet-convert: %v\n", err)
		return exitUsage
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	p := &progress{
		to:       stderr,
		terminal: terminal && !c.Quiet,
		quiet:    c.Quiet,
		began:    time.Now(),
	}
	r, err := conversion.Run(ctx, c.options(p))
	p.clear()
	if err == nil {
		p.done(c.Output, r)
		return 0
	}
	return reportError(stderr, err)
}

// checkNoRepeats refuses a flag that is given twice: kong would take the last value, and a user who means both would
// not notice.
func checkNoRepeats(k *kong.Context) error {
	seen := map[*kong.Flag]bool{}
	for _, at := range k.Path {
		f := at.Flag
		switch {
		case f == nil || f.IsBool():
		case seen[f]:
			return fmt.Errorf("--%s is given twice: give it once, or convert once for each", f.Name)
		default:
			seen[f] = true
		}
	}
	return nil
}

// decimalNumber reads a number in decimal digits: kong would read 010 as eight.
func decimalNumber(ctx *kong.DecodeContext, target reflect.Value) error {
	t, err := ctx.Scan.PopValue("number")
	if err != nil {
		return err
	}
	text := fmt.Sprint(t.Value)
	if target.CanInt() {
		var n int64
		if n, err = decimal.Int(text, target.Type().Bits()); err == nil {
			target.SetInt(n)
		}
	} else {
		var n uint64
		if n, err = decimal.Uint(text, target.Type().Bits()); err == nil {
			target.SetUint(n)
		}
	}
	if err != nil {
		return fmt.Errorf("%q is not a whole number: %w", text, err)
	}
	return nil
}

func (c *cli) options(p *progress) conversion.Options {
	return conversion.Options{
		Inputs:    c.Inputs,
		Output:    c.Output,
		Format:    c.Format,
		To:        c.To,
		Banks:     c.Banks,
		Once:      c.Once,
		Skip:      c.OnBadRecord == "skip",
		Force:     c.Force,
		Run:       c.RunNumber,
		Program:   version,
		MaxUnit:   c.MaxRecord << 20,
		PartBytes: c.PartSize << 20,
		Progress:  p.show,
		Bad:       p.bad,
	}
}

// reportError prints the error that ended the conversion, and returns the exit code.
func reportError(stderr io.Writer, err error) int {
	var bad *input.BadError
	var exists *conversion.OutputExistsError
	var name *conversion.NameError
	switch {
	case errors.As(err, &bad):
		fmt.Fprintf(stderr, "ringlet-convert: %v; --on-bad-record skip goes on behind it\n", err)
		return exitInput
	case errors.As(err, &exists), errors.As(err, &name):
		fmt.Fprintf(stderr, "ringlet-convert: %v\n", err)
		return exitUsage
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(stderr, "ringlet-convert: stopped; the same command goes on behind the whole parts of a directory")
	default:
		fmt.Fprintf(stderr, "ringlet-convert: %v\n", err)
	}
	return exitError
}
