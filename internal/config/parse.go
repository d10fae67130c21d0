package config

import (
	"bytes"
	"encoding"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// maxFile bounds a configuration file. The whole of Effective is below 1 KiB; 64 KiB leave room for a great many comments.
const maxFile = 64 << 10

// Load reads a YAML file over the defaults. Whatever is wrong with the content is an *InvalidError that names the file, the line
// and the key; a file that cannot be read is an *fs.PathError. The result is not complete: call Complete.
func Load(path string) (Config, error) {
	f, err := os.Open(path)
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

// read decodes one document strictly: unknown, repeated, valueless and non-scalar settings are problems, all of them reported.
// It also returns the names of the flags that the document sets.
func read(name string, in io.Reader) (Config, map[string]bool, error) {
	c := Default()
	d := decoder{file: name, set: map[string]bool{}}
	text, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	if err != nil {
		return Config{}, nil, fmt.Errorf("read %s: %w", name, err)
	}
	if len(text) > maxFile {
		d.add(0, "", "is larger than %d bytes: this is no configuration", maxFile)
		return Config{}, nil, d.problems.err()
	}
	root, err := d.document(text)
	if err == nil && root != nil {
		d.mapping(root, "", fields(&c))
	}
	if err := d.problems.err(); err != nil {
		return Config{}, nil, err
	}
	return c, d.set, nil
}

// decoder walks one YAML document and collects what is wrong with it.
type decoder struct {
	file     string
	problems problems
	set      map[string]bool // flags that the document gives
}

func (d *decoder) add(line int, key, format string, args ...any) {
	d.problems = append(d.problems, Problem{File: d.file, Line: line, Key: key, Reason: fmt.Sprintf(format, args...)})
}

// document returns the mapping at the top, or nil where the file is empty.
func (d *decoder) document(text []byte) (*yaml.Node, error) {
	dec := yaml.NewDecoder(bytes.NewReader(text))
	var doc, more yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		d.add(0, "", "%s", strings.TrimPrefix(err.Error(), "yaml: "))
		return nil, err
	}
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		d.add(more.Line, "", "a second document begins here: a configuration is one")
		return nil, errors.New("two documents")
	}
	root := doc.Content[0]
	if root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
		return nil, nil
	}
	return root, nil
}

// mapping decodes the settings under path, "" or "debug.".
func (d *decoder) mapping(node *yaml.Node, path string, all []field) {
	if node.Kind != yaml.MappingNode {
		d.add(node.Line, strings.TrimSuffix(path, "."), "expected settings, each on a line of its own as \"key: value\"")
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		keyNode, value := node.Content[i], node.Content[i+1]
		key := path + keyNode.Value
		if line, again := seen[key]; again {
			d.add(keyNode.Line, key, "is given twice, first on line %d", line)
			continue
		}
		seen[key] = keyNode.Line
		d.setting(keyNode, value, key, path, all)
	}
}

// setting decodes one key: a leaf, a group of leaves, or an unknown name.
func (d *decoder) setting(keyNode, value *yaml.Node, key, path string, all []field) {
	var known []string
	group := false
	for _, f := range all {
		if f.key == key && keyNode.Kind == yaml.ScalarNode {
			d.scalar(f, value)
			return
		}
		rest, under := strings.CutPrefix(f.key, path)
		if !under {
			continue
		}
		name, _, nested := strings.Cut(rest, ".")
		group = group || nested && path+name == key
		known = append(known, path+name)
	}
	if group {
		d.mapping(value, key+".", all)
		return
	}
	d.add(keyNode.Line, key, "there is no such setting; the nearest one is %q", nearest(key, known))
}

// scalar decodes one value.
func (d *decoder) scalar(f field, value *yaml.Node) {
	switch {
	case value.Kind != yaml.ScalarNode:
		d.add(value.Line, f.key, "expected a single value")
		return
	case value.Tag == "!!null":
		d.add(value.Line, f.key, "has no value")
		return
	}
	if err := decode(f.value, value); err != nil {
		d.add(value.Line, f.key, "%s", err)
		return
	}
	if e := (enum{value: f.value.String(), allowed: f.enum}); f.enum != nil && !e.allows() {
		d.add(value.Line, f.key, "%q is not one of %s", value.Value, strings.Join(e.named(), ", "))
		return
	}
	d.set[f.flag] = true
}

// decode reads one value into v. The YAML library would cut 1.5 to a whole number, so the kind of the value is checked first.
func decode(v reflect.Value, node *yaml.Node) error {
	into := v.Addr().Interface()
	if own, ok := into.(encoding.TextUnmarshaler); ok {
		return own.UnmarshalText([]byte(node.Value))
	}
	var want, tags string
	switch {
	case v.Type() == reflect.TypeFor[time.Duration]():
		if t, err := time.ParseDuration(node.Value); err == nil {
			v.SetInt(int64(t))
			return nil
		}
		want, tags = "a time such as 10s or 1m30s", ""
	case v.CanInt():
		want, tags = "a whole number", "!!int"
	case v.CanUint():
		want, tags = fmt.Sprintf("a whole number that is not negative and fits %d bits", v.Type().Bits()), "!!int"
	case v.CanFloat():
		want, tags = "a number", "!!int !!float"
	case v.Kind() == reflect.Bool:
		want, tags = "true or false", "!!bool"
	default:
		want, tags = "text", node.ShortTag() // a number or a date is good text
	}
	if !strings.Contains(tags, node.ShortTag()) || node.Decode(into) != nil {
		return fmt.Errorf("%q is not %s", node.Value, want)
	}
	return nil
}
