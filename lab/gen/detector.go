package gen

import (
	"errors"

	"ringlet/event/velo"
	"ringlet/internal/regular"
	"ringlet/node/config"
	"ringlet/readoutunit/source/frontend"
)

// builtIn is the name of the detector that needs no file.
const builtIn = "velo"

// LoadDetector is the detector that a file describes, or the one of document 000 for the name velo. A file need only
// say what differs from that one. What is wrong with its content is a *config.InvalidError that names the line and the
// key.
func LoadDetector(name string) (*frontend.Detector, error) {
	c := frontend.Default()
	if name == builtIn {
		return frontend.New(c)
	}
	f, err := regular.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	doc, err := config.Read(name, f, &c)
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
		doc.Add("detector."+layout.Field, "%s", layout.Reason)
	case errors.As(err, &other):
		doc.Add(other.Field, "%s", other.Reason)
	default:
		return d, err
	}
	return nil, doc.Err()
}
