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

// LoadDescription reads a file into d, and completes it. Invalid content is an *InvalidError that names the line and
// the key.
func LoadDescription(name string, d filter.Description) error {
	f, err := safeopen.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return readDescription(name, f, d)
}

// readDescription is LoadDescription for an open file.
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

// LoadFilterDescription reads the description in the filter's file; nil if the filter has no file.
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

// FilterFile is the file with the description of the detector that the filter searches; "" if there is none. It needs a
// completed configuration.
func (c OutputSettings) FilterFile() string {
	choice, _ := c.FilterChoice()
	return choice.DetectorFile()
}

// CheckFilterFile reads the filter's file from in, and checks that the filter can search its detector, and that the run
// has that detector's data. It returns the number of boards. The error is an *InvalidError, or one of reading.
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

// CheckBoards returns an *InvalidError if the run has fewer sources than the boards that its filter searches.
func (c Completed) CheckBoards(boards int) error {
	var p problems
	if sources := c.Division().Sources(); sources < boards {
		p.add("filter", "the detector of %s has %d boards, and the data have %d sources: give the file that the data were "+
			"made with", c.FilterFile(), boards, sources)
	}
	return p.err()
}

// SetFilterFile replaces the path of the filter's file, and adds the SHA-256 of the content that was read, so that no
// host uses another file.
func (c *OutputSettings) SetFilterFile(path string, sum []byte) {
	choice, _ := c.FilterChoice()
	c.Filter = choice.WithFile(path, hex.EncodeToString(sum))
}
