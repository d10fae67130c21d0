package config

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Completed is a configuration in which nothing is left open and that was checked as a whole. Compose makes it, and
// Restore reads it back; whatever comes behind takes it, and completes nothing.
type Completed struct{ Config }

// Compose makes a complete configuration of the defaults, a YAML text and settings that win over it.
func Compose(name string, text []byte, settings []string) (Completed, error) {
	return Default().Compose(name, text, settings)
}

// Compose makes a complete configuration of what c holds, of a YAML text that wins over it, and of settings that win
// over both: key=value, by the keys of the file. Either may be nothing. Everything that is asked whether it would take
// a configuration asks Compose and then CheckNodes, so that all of them answer alike. name stands for the text in
// errors, each of which about the content is an *InvalidError.
func (c Config) Compose(name string, text []byte, settings []string) (Completed, error) {
	doc, err := Read(name, bytes.NewReader(text), &c)
	if err != nil {
		return Completed{}, err
	}
	p := doc.problems
	var invalid *InvalidError
	if errors.As(c.Apply(settings), &invalid) {
		p = append(p, invalid.Problems...)
	}
	if len(p) > 0 {
		return Completed{}, c.withOtherProblems(p).err()
	}
	if err := c.Complete(); err != nil {
		return Completed{}, err
	}
	c.OpenEnded = false // Duration says so by now
	return Completed{c}, nil
}

// Restore reads a configuration back that Effective has printed. It was completed then, and stays as it is: a run has
// the configuration that it had, whatever a later version would make of it.
func Restore(name string, text []byte) (Completed, error) {
	c, _, err := read(name, bytes.NewReader(text))
	return Completed{c}, err
}

// withOtherProblems adds to the problems of reading what is wrong with the settings that could be read, each by itself.
// What several settings make together would only be guessed.
func (c Config) withOtherProblems(p problems) problems {
	more := draft{Config: &c}
	more.checkValues()
	more.checkInput()
	more.resolveOutput()
	for _, one := range more.problems {
		if !slices.ContainsFunc(p, func(said Problem) bool { return said.Key == one.Key }) {
			p = append(p, one)
		}
	}
	return p
}

// Apply gives settings their values: key=value. On error it is an *InvalidError with everything that is wrong with
// them.
func (c *Config) Apply(settings []string) error {
	var p problems
	for _, s := range settings {
		key, value, is := strings.Cut(s, "=")
		key = strings.TrimSpace(key)
		if !is || key == "" {
			p.add("", "%q is no setting: write key=value, such as packing=1000", s)
			continue
		}
		node := &yaml.Node{Kind: yaml.ScalarNode, Value: strings.TrimSpace(value)}
		if node.Value == "" {
			node.Tag = "!!str" // an empty text is a value here, where a file would write ""
		}
		var invalid *InvalidError
		if errors.As(c.Set("", 0, key, node), &invalid) {
			p = append(p, invalid.Problems...)
		}
	}
	return p.err()
}
