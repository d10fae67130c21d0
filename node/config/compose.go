package config

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Compose makes a complete configuration of a YAML text and of settings that win over it: key=value, by the keys of the
// file. Everything that is asked whether it would take a configuration asks Compose and then Check, so that all of them
// answer alike. name stands for the text in errors.
func Compose(name string, text []byte, settings []string) (Config, error) {
	c := Default()
	doc, err := Read(name, bytes.NewReader(text), &c)
	if err != nil {
		return Config{}, err
	}
	p := doc.problems
	var invalid *InvalidError
	if errors.As(c.Apply(settings), &invalid) {
		p = append(p, invalid.Problems...)
	}
	if len(p) > 0 {
		return Config{}, c.withOtherProblems(p).err()
	}
	if err := c.Complete(); err != nil {
		return Config{}, err
	}
	return c, nil
}

// withOtherProblems adds to the problems of reading what is wrong with the settings that could be read, each by itself.
// What several settings make together would only be guessed.
func (c Config) withOtherProblems(p problems) problems {
	var more problems
	c.checkValues(&more)
	c.checkInput(&more)
	c.resolveOutput(&more)
	for _, one := range more {
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
