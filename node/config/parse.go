package config

import (
	"bytes"
	"io"

	"ringlet/internal/safeopen"
)

// loadFile reads a YAML file over the defaults. Whatever is wrong with the content is an *InvalidError that names the
// file, the line and the key; a file that cannot be read is an *fs.PathError, or a *safeopen.NotRegularError. The
// result is not complete: call Complete.
func loadFile(path string) (Config, error) {
	f, err := safeopen.Open(path)
	if err != nil {
		return Config{}, err
	}
	defer f.Close()
	c, _, err := read(path, f)
	return c, err
}

// Parse is Load of bytes; name stands for the file in errors.
func Parse(name string, text []byte) (Config, error) {
	c, _, err := read(name, bytes.NewReader(text))
	return c, err
}

// Merge reads a YAML text over what the configuration holds: what the text does not give stays. name stands for the
// text in errors.
func (c *Config) Merge(name string, text []byte) error {
	d, err := Read(name, bytes.NewReader(text), c)
	if err == nil {
		err = d.Err()
	}
	return err
}

// read also returns the document, which says what was given.
func read(name string, in io.Reader) (Config, *Document, error) {
	c := Default()
	d, err := Read(name, in, &c)
	if err == nil {
		err = d.Err()
	}
	if err != nil {
		return Config{}, nil, err
	}
	return c, d, nil
}
