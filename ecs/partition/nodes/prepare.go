package nodes

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"ringlet/event"
	"ringlet/internal/safeopen"
	"ringlet/node/config"
	"ringlet/source"
)

// Prepare makes the paths of a configuration absolute, since nodes have other working directories, and fills in streams
// and slot size by the input, which it reads to its end. The input must be in one of the allowed places; nil means
// anywhere.
func Prepare(ctx context.Context, c *config.Completed, inputs *safeopen.AllowedPaths) error {
	if err := prepareOutput(c); err != nil {
		return fmt.Errorf("the path of the output cannot be made absolute: %w", err)
	}
	boards, err := prepareFilter(c, inputs)
	if err != nil {
		return err
	}
	if c.GeneratesData() {
		return c.FitSlot()
	}
	if err := prepareInput(ctx, c, inputs); err != nil {
		return err
	}
	return c.CheckBoards(boards)
}

// prepareFilter reads the file of the filter's detector, if there is one, makes its path absolute, and returns the
// number of boards. The file must be in one of the places, as an input. Builder units read it again on their hosts.
func prepareFilter(c *config.Completed, places *safeopen.AllowedPaths) (boards int, err error) {
	if c.FilterFile() == "" {
		return 0, nil
	}
	f, path, err := places.Open(c.FilterFile())
	if err != nil {
		return 0, &config.InvalidError{Problems: []config.Problem{{
			Key:    "filter",
			Reason: fmt.Sprintf("the file of its detector cannot be read: %v", err),
		}}}
	}
	defer func() { _ = f.Close() }() // it is only read
	sum := sha256.New()
	if boards, err = c.CheckFilterFile(io.TeeReader(f, sum)); err == nil {
		c.SetFilterFile(path, sum.Sum(nil))
	}
	return boards, err
}

// prepareOutput makes the paths of outputs absolute. The nodes check on their hosts whether they can write them.
func prepareOutput(c *config.Completed) error {
	return c.MapPaths(func(path string) (string, error) {
		abs, err := filepath.Abs(path)
		if err == nil && strings.HasSuffix(path, "/") {
			abs += "/"
		}
		return abs, err
	})
}

// CheckFiles says why the input or the filter's detector file of a configuration cannot be used; nil if they can. It
// reads them as Prepare does.
func CheckFiles(ctx context.Context, c config.Completed, places *safeopen.AllowedPaths) error {
	boards, err := prepareFilter(&c, places)
	if err != nil || c.GeneratesData() {
		return err
	}
	if err := prepareInput(ctx, &c, places); err != nil {
		return err
	}
	return c.CheckBoards(boards)
}

func prepareInput(ctx context.Context, c *config.Completed, inputs *safeopen.AllowedPaths) error {
	settings, err := c.SourceSettings(0)
	if err != nil {
		return err
	}
	if err := prepareFrontends(c, inputs); err != nil {
		return &InputError{err}
	}
	kind, name := c.Source()
	var f *os.File
	if kind.File {
		if f, settings.Input, err = inputs.Open(settings.Input); err != nil {
			return &InputError{err}
		}
		defer func() { _ = f.Close() }()                             // it is only read
		c.Input = strings.TrimSuffix(c.Input, name) + settings.Input // the kind's name stays before it
	}
	needs, err := kind.Measure(ctx, f, settings)
	switch {
	case err != nil && ctx.Err() != nil:
		return fmt.Errorf("%s was not read to its end: %w", c.Input, err)
	case err != nil:
		return &InputError{err}
	}
	c.SetDivision(needs.Division)
	return fitSlots(c, event.MEPHeaderSize(needs.Division.Sources())+needs.MaxMEPBytes)
}

// prepareFrontends reads the files that live sources name as their front-ends' part of the configuration.
func prepareFrontends(c *config.Completed, places *safeopen.AllowedPaths) error {
	if !c.HasLiveSources() {
		return nil
	}
	list, err := source.ParseInputs(c.Input)
	files := map[string]string{}
	for _, in := range list {
		name := in.Options.Config
		if _, there := files[name]; name == "" || there {
			continue
		}
		text, failed := readFrontendConfig(name, places)
		if failed != nil {
			return fmt.Errorf("%s: its front-end's configuration: %w", in.Text, failed)
		}
		files[name] = text
	}
	if err := errors.Join(err, c.SetFrontendConfigs(files)); err != nil {
		return err
	}
	if n := len(c.Effective()); len(files) > 0 && n > config.MaxFileBytes {
		return fmt.Errorf("with the configurations of front-ends that of the run has %d bytes, and %d are the most", n,
			config.MaxFileBytes)
	}
	return nil
}

// readFrontendConfig reads a file for a front-end.
func readFrontendConfig(name string, places *safeopen.AllowedPaths) (string, error) {
	f, _, err := places.Open(name)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // it is only read
	text, err := io.ReadAll(io.LimitReader(f, source.MaxConfig+1))
	switch {
	case err != nil:
	case len(text) > source.MaxConfig:
		err = fmt.Errorf("%s has more than %d bytes", name, source.MaxConfig)
	case !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0:
		err = fmt.Errorf("%s is no text in UTF-8", name)
	}
	return string(text), err
}

// maxDefaultSlot is the largest slot size, in bytes, that a run has without the setting slot-size. Recorded events may
// be a thousand times larger than generated ones: with the same packing, a MEP then has GB, takes longer than
// barrier-timeout, and the slots fill the memory.
const maxDefaultSlot = 256 << 20

// fitSlots sets the slot size for MEPs of up to need bytes, or says why the one that is set does not fit.
func fitSlots(c *config.Completed, need int) error {
	if c.SlotSize == 0 && need > maxDefaultSlot && !c.HasLiveSources() { // what live sources declare is meant
		return fmt.Errorf("with packing %d the largest MEP of %s needs %d bytes: lower packing to %d or less, or set "+
			"slot-size if that is meant",
			c.Packing, c.Input, need, max(1, int(int64(c.Packing)*maxDefaultSlot/int64(need))))
	}
	if c.SlotSize == 0 {
		c.SlotSize = config.Bytes(need)
	}
	if int(c.SlotSize) < need {
		return fmt.Errorf("the largest MEP of %s needs %d bytes, but slot-size is %s: raise slot-size or lower packing",
			c.Input, need, c.SlotSize)
	}
	return nil
}

// An InputError says why an input cannot be replayed.
type InputError struct{ Err error }

func (e *InputError) Error() string {
	s := "the input cannot be read: " + e.Err.Error()
	if not := (*safeopen.NotRegularError)(nil); errors.As(e.Err, &not) && not.Mode.IsDir() {
		s += "; ringlet merge --keep makes a file of the directory of a run"
	}
	return s
}
func (e *InputError) Unwrap() error { return e.Err }
