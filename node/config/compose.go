package config

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Completed is a configuration without open values, checked as a whole. Compose makes it, and Restore reads it back;
// later code takes a Completed, and completes nothing.
type Completed struct{ Config }

// Compose makes a complete configuration from the defaults, a YAML text and settings, each of which overrides the
// former.
func Compose(name string, text []byte, settings []string) (Completed, error) {
	return Default().Compose(name, text, settings)
}

// Compose makes a complete configuration from c, a YAML text that overrides c, and settings that override both:
// key=value, by the keys of the file. Text and settings may be empty. Every part of the program that accepts or refuses
// a configuration calls Compose and then CheckNodes, so that all of them give the same answer. name names the text in
// errors. An error about the content is an *InvalidError.
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
	c.OpenEnded, c.JoinedMembers, c.NodesPerProcess = false, "", 0 // Duration and Members have the answers now
	return Completed{c}, nil
}

// Restore reads a configuration that Effective has printed, with all defaults filled in. Restore fills in no defaults:
// a run keeps the configuration that it had, even if a later release of Ringlet has other defaults. name names the text
// in errors.
func Restore(name string, text []byte) (Completed, error) {
	c, _, err := read(name, bytes.NewReader(text))
	return Completed{c}, err
}

// withOtherProblems adds to the problems of reading those of the settings that could be read, each checked alone:
// checks of several settings together would be guesses.
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

// Apply sets settings: key=value. Its error is an *InvalidError with all problems.
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
