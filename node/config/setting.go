package config

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// Set sets one setting to the value in a YAML file, as strictly as Read: key is the setting's path ("packing",
// "debug.drop"), line is the line of the key. The error is an *InvalidError with file and line. Files with more than
// one configuration, such as sweeps, use it.
func (c *Config) Set(file string, line int, key string, value *yaml.Node) error {
	d := Document{file: file, lines: map[string]int{}}
	for _, f := range settingFields(c) {
		if f.key == key {
			d.decodeValue(value, key, f.value, f.tag)
			return d.Err()
		}
	}
	d.addUnknownKey(line, key, SettingKeys())
	return d.Err()
}

// Setting is one field as the command line and people see it.
type Setting struct {
	Key       string // path in YAML
	Flag      string // without dashes
	FlagValue string // value as an argument of the flag
	Value     any
}

// Setting returns the field with that key, or false.
func (c Config) Setting(key string) (Setting, bool) {
	for _, f := range settingFields(&c) {
		if f.key == key {
			v := f.value.Interface()
			return Setting{
				Key:       f.key,
				Flag:      f.flag,
				FlagValue: fmt.Sprint(v),
				Value:     v,
			}, true
		}
	}
	return Setting{}, false
}

// SettingKeys lists all settings in the order of the struct.
func SettingKeys() []string {
	var c Config
	var out []string
	for _, f := range settingFields(&c) {
		out = append(out, f.key)
	}
	return out
}
