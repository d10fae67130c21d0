package config

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"reflect"

	"ringlet/event/velo"
	"ringlet/filter/builtin"
	"ringlet/internal/safeopen"
	"ringlet/readoutunit/source/frontend"
)

// builtInDetector is the name of the detector that needs no file.
const builtInDetector = "velo"

// LoadDetector is the detector that a file describes, or the one of L1-farm for the name velo. A file need only
// say what differs from that one. What is wrong with its content is an *InvalidError that names the line and the key.
func LoadDetector(name string) (*frontend.Detector, error) {
	if name == builtInDetector {
		return frontend.New(frontend.Default())
	}
	f, err := safeopen.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readDetector(name, f)
}

// readDetector is LoadDetector for a file that is open.
func readDetector(name string, in io.Reader) (*frontend.Detector, error) {
	c := frontend.Default()
	doc, err := Read(name, in, &c)
	if err != nil {
		return nil, err
	}
	if err := doc.Err(); err != nil {
		return nil, err
	}
	d, err := frontend.New(c)
	var layout *velo.LayoutError
	var other *frontend.ConfigError
	switch {
	case errors.As(err, &layout):
		doc.AddProblem("detector."+layout.Field, "%s", layout.Reason)
	case errors.As(err, &other):
		doc.AddProblem(other.Field, "%s", other.Reason)
	default:
		return d, err
	}
	return nil, doc.Err()
}

// LoadFilterDetector is the detector that the file of a filter describes, read now; nil if the filter has no file.
func LoadFilterDetector(choice builtin.Choice) (*velo.Geometry, error) {
	if choice.DetectorFile() == "" {
		return nil, nil
	}
	f, err := safeopen.Open(choice.DetectorFile())
	if err != nil {
		return nil, fmt.Errorf("the detector of the filter is not known: %w", err)
	}
	defer func() { _ = f.Close() }() // it is only read
	sum := sha256.New()
	d, err := readDetector(choice.DetectorFile(), io.TeeReader(f, sum))
	if is := hex.EncodeToString(sum.Sum(nil)); choice.FileSum != "" && is != choice.FileSum {
		return nil, fmt.Errorf("the detector of the filter: %s on this host is not the file that the run control read "+
			"(SHA-256 %.12s here, %.12s there): copy the same file to every host, and load the configuration again",
			choice.DetectorFile(), is, choice.FileSum)
	}
	if err != nil {
		return nil, fmt.Errorf("the detector of the filter is not known: %w", err)
	}
	return d.Geometry(), nil
}

// FilterFile is the file that describes the detector which the filter searches; empty: there is none. It holds after
// Complete.
func (c Config) FilterFile() string {
	choice, _ := c.FilterChoice()
	return choice.DetectorFile()
}

// CheckFilterFile looks whether the filter can search the detector of its file, which is read from in, and whether the
// run has the data of that detector: its number of boards is returned. The error is an *InvalidError, or one of
// reading. It holds after Complete.
func (c Config) CheckFilterFile(in io.Reader) (boards int, err error) {
	choice, _ := c.FilterChoice()
	d, err := readDetector(choice.DetectorFile(), in)
	if err != nil {
		return 0, err
	}
	var p problems
	if _, err := choice.OpenFilters(0, d.Geometry()); err != nil {
		p.add("filter", "%s: %v", choice.DetectorFile(), err)
	}
	if c.SimulatesDetector() && !reflect.DeepEqual(d.Config().Detector, frontend.Default().Detector) {
		p.add("filter", "%s describes another detector than the one that fragment-model velo simulates: give the filter "+
			"vertex without a file, or an input that was made with this file (ringlet gen --detector)", choice.DetectorFile())
	}
	return d.Geometry().Boards(), p.err()
}

// CheckBoards says, as an *InvalidError, that the sources of a run are fewer than the boards which its filter searches.
func (c Config) CheckBoards(boards int) error {
	var p problems
	if sources := c.Division().Sources(); sources < boards {
		p.add("filter", "the detector of %s has %d boards, and the data have %d sources: give the file that the data were "+
			"made with", c.FilterFile(), boards, sources)
	}
	return p.err()
}

// SetFilterFile names the file of the filter's detector anew, with the SHA-256 of what was read of it, so that no host
// takes another.
func (c *Config) SetFilterFile(path string, sum []byte) {
	choice, _ := c.FilterChoice()
	c.Filter = choice.WithFile(path, hex.EncodeToString(sum))
}
