package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"ringlet/internal/registry"
)

// settingField is one setting: a leaf of the struct.
type settingField struct {
	key   string // path in YAML, parts separated by dots: "packing", "debug.drop"
	flag  string // name of the flag without dashes
	tag   reflect.StructTag
	enum  []string
	value reflect.Value
}

// settingFields lists the settings of c in the order of the struct. Setting a value changes c.
func settingFields(c *Config) []settingField {
	return appendFields(nil, reflect.ValueOf(c).Elem(), "", "")
}

func appendFields(out []settingField, v reflect.Value, path, prefix string) []settingField {
	for i := range v.NumField() {
		tag := v.Type().Field(i).Tag
		key := tag.Get("yaml")
		if key == "-" || tag.Get("kong") == "-" {
			continue
		}
		if v.Type().Field(i).Anonymous { // a section
			out = appendFields(out, v.Field(i), path, prefix)
			continue
		}
		if p, nested := tag.Lookup("prefix"); nested {
			out = appendFields(out, v.Field(i), path+key+".", prefix+p)
			continue
		}
		f := settingField{
			key:   path + key,
			flag:  prefix + key,
			tag:   tag,
			value: v.Field(i),
		}
		if list, ok := tag.Lookup("enum"); ok {
			f.enum = strings.Split(ExpandVars(list), ",")
		}
		out = append(out, f)
	}
	return out
}

// checkEnum refuses a value that is none of the words; an empty word only means that the setting may be left out.
func checkEnum(value string, words []string) error {
	if slices.Contains(words, value) {
		return nil
	}
	words = slices.DeleteFunc(slices.Clone(words), func(w string) bool { return w == "" })
	return fmt.Errorf("%q is not one of %s", value, strings.Join(words, ", "))
}

// Nearest returns the name with the smallest edit distance to key, the first of several.
func Nearest(key string, names []string) string { return registry.Nearest(key, names) }
