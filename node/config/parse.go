package config

import "io"

// read reads a YAML text over the defaults. Invalid content is an *InvalidError that names the file, the line and the
// key. The document tells which values were given.
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
