package config

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"ringlet/filter"
	"ringlet/filter/builtin"
	"ringlet/internal/safeopen"
)

// LoadDescription reads a file into d, and completes it. What is wrong with its content is an *InvalidError that names
// the line and the key.
func LoadDescription(name string, d filter.Description) error {
	f, err := safeopen.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return readDescription(name, f, d)
}

// readDescription is LoadDescription for a file that is open.
func readDescription(name string, in io.Reader, d filter.Description) error {
	doc, err := Read(name, in, d.Settings())
	if err != nil {
		return err
	}
	if err := doc.Err(); err != nil {
		return err
	}
	err = d.Complete()
	var wrong *filter.DescriptionError
	if !errors.As(err, &wrong) {
		return err
	}
	doc.AddProblem(wrong.Field, "%s", wrong.Reason)
	return doc.Err()
}

// LoadFilterDescription is what the file of a filter describes, read now; nil if the filter has no file.
func LoadFilterDescription(choice builtin.Choice) (filter.Description, error) {
	if choice.DetectorFile() == "" {
		return nil, nil
	}
	f, err := safeopen.Open(choice.DetectorFile())
	if err != nil {
		return nil, fmt.Errorf("the detector of the filter is not known: %w", err)
	}
	defer func() { _ = f.Close() }() // it is only read
	sum, d := sha256.New(), choice.NewDescription()
	err = readDescription(choice.DetectorFile(), io.TeeReader(f, sum), d)
	if is := hex.EncodeToString(sum.Sum(nil)); choice.FileSum != "" && is != choice.FileSum {
		return nil, fmt.Errorf("the detector of the filter: %s on this host is not the file that the run control read "+
			"(SHA-256 %.12s here, %.12s there): copy the same file to every host, and load the configuration again",
			choice.DetectorFile(), is, choice.FileSum)
	}
	if err != nil {
		return nil, fmt.Errorf("the detector of the filter is not known: %w", err)
	}
	return d, nil
}

// FilterFile is the file that describes the detector which the filter searches; empty: there is none. It holds after
// Complete.
func (c OutputSettings) FilterFile() string {
	choice, _ := c.FilterChoice()
	return choice.DetectorFile()
}

// CheckFilterFile looks whether the filter can search the detector of its file, which is read from in, and whether
// the run has the data of that detector: its number of boards is returned. The error is an *InvalidError, or one of
// reading.
func (c Completed) CheckFilterFile(in io.Reader) (boards int, err error) {
	choice, _ := c.FilterChoice()
	d := choice.NewDescription()
	if err := readDescription(choice.DetectorFile(), in, d); err != nil {
		return 0, err
	}
	var p problems
	if _, err := choice.OpenFilters(0, d); err != nil {
		p.add("filter", "%s: %v", choice.DetectorFile(), err)
	}
	if c.SimulatesDetector() && !d.Fits() {
		p.add("filter", "%s describes another detector than the one that fragment-model velo simulates: give the filter "+
			"vertex without a file, or an input that was made with this file (ringlet gen --detector)", choice.DetectorFile())
	}
	return d.Sources(), p.err()
}

// CheckBoards says, as an *InvalidError, that the sources of a run are fewer than the boards which its filter searches.
func (c Completed) CheckBoards(boards int) error {
	var p problems
	if sources := c.Division().Sources(); sources < boards {
		p.add("filter", "the detector of %s has %d boards, and the data have %d sources: give the file that the data were "+
			"made with", c.FilterFile(), boards, sources)
	}
	return p.err()
}

// SetFilterFile names the file of the filter's detector anew, with the SHA-256 of what was read of it, so that no host
// takes another.
func (c *OutputSettings) SetFilterFile(path string, sum []byte) {
	choice, _ := c.FilterChoice()
	c.Filter = choice.WithFile(path, hex.EncodeToString(sum))
}
