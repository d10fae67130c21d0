package config

import (
	"errors"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Compose makes a complete configuration of a YAML text and of settings that win over it: key=value, by the keys of the
// file. Everything that is asked whether it would take a configuration asks Compose and then Check, so that all of them
// answer alike. name stands for the text in errors.
func Compose(name string, text []byte, settings []string) (Config, error) {
	c, err := Parse(name, text)
	if err == nil {
		err = c.Apply(settings)
	}
	if err == nil {
		err = c.Complete()
	}
	if err != nil {
		return Config{}, err
	}
	return c, nil
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
