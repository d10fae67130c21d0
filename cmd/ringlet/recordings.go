package main

import (
	"context"
	"errors"
	"fmt"

	"ringlet/lab/origin"
	"ringlet/recording"
)

type recoverCmd struct {
	Dir string `arg:"" help:"An output directory, or the directory of a run."`
}

// Run closes segments that killed processes left open.
func (c *recoverCmd) Run(ctx context.Context, to streams) error {
	found, err := recording.Recover(ctx, c.Dir)
	failed := 0
	for i := range found {
		fmt.Fprintf(to.out, "%s/%v\n", found[i].Dir, &found[i])
		if found[i].Err != nil {
			failed++
		}
	}
	switch {
	case err != nil:
		return explainInterruption(err, "run it again: it goes on where it is")
	case failed > 0:
		return fmt.Errorf("recover: %d of %d files could not be recovered; nothing of them was changed or removed", failed,
			len(found))
	case len(found) == 0:
		fmt.Fprintf(to.out, "%s: there is nothing to recover\n", c.Dir)
	}
	return nil
}

type verifyCmd struct {
	Dir   string `arg:"" help:"An output directory, the directory of a run, or a merged file."`
	Quick bool   `help:"Read manifests, indexes and the last MEP of each segment, not all data."`
	Full  bool   `help:"Compare each fragment with what the generator makes, or each event with the input that was replayed."`
	JSON  bool   `name:"json" help:"Print one JSON object."`
}

// Run reads recordings back. The exit code is 0 only if they have no errors and the accounts balance.
func (c *verifyCmd) Run(ctx context.Context, to streams) error {
	if c.Quick && c.Full {
		return &exit{exitUsage, errors.New("quick reads no data, and full compares all of them: leave out one")}
	}
	line := &dataLine{ttyLine: newLine(to.err, !c.JSON)}
	o := recording.VerifyOptions{
		IndexesOnly: c.Quick,
		Progress:    func(dir string, done, total int64) { line.show("verify "+dir, done, total) },
	}
	if c.Full {
		o.Content = func(m *recording.Manifest) (recording.Content, error) { return origin.Find(ctx, m) }
	}
	v, err := recording.Verify(ctx, c.Dir, o)
	line.end()
	if err != nil {
		return explainInterruption(err, "nothing was changed")
	}
	if c.JSON {
		err = printJSON(to.out, v)
	} else {
		_, err = v.WriteTo(to.out)
	}
	if err == nil && !v.IsGood() {
		return &exit{exitError, nil}
	}
	return err
}

type mergeCmd struct {
	Dir       string `arg:"" help:"The directory of a run, or an output directory with one run."`
	Out       string `arg:"" help:"The file to make."`
	Overwrite bool   `help:"Replace the file if it is there, when the new one is whole."`
	Keep      bool   `help:"Keep the segments. Without it they are removed when the file is whole, on the disk and compared."`
}

// Run makes one file in event order.
func (c *mergeCmd) Run(ctx context.Context, to streams) error {
	line := &dataLine{ttyLine: newLine(to.err, true)}
	merged, err := recording.Merge(ctx, c.Dir, c.Out, recording.MergeOptions{
		Remove:    !c.Keep,
		Overwrite: c.Overwrite,
		Progress:  line.show,
	})
	line.end()
	if err != nil {
		return explainInterruption(err, "nothing is lost; run it again: it comes to the same end")
	}
	_, err = fmt.Fprintf(to.out, "%s: %d events in %d MEPs, %d bytes, CRC-32C %s\n",
		c.Out, merged.Events, merged.MEPs, merged.Bytes, merged.CRC)
	return err
}

// explainInterruption is the error of an interrupted command, with what it has left.
func explainInterruption(err error, remains string) error {
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("interrupted: %s", remains)
	}
	return err
}

// dataLine is a status line with the progress of reading data.
type dataLine struct {
	ttyLine
	what    string
	percent int64
}

// show rewrites the line if it has changed.
func (l *dataLine) show(what string, done, total int64) {
	percent := int64(float64(done) / float64(max(total, 1)) * 100)
	if what == l.what && percent == l.percent && l.shown {
		return
	}
	l.what, l.percent = what, percent
	l.ttyLine.show(what, int(percent), 100)
}
