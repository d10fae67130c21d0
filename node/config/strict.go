package config

import (
	"bytes"
	"encoding"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"ringlet/internal/decimal"
)

// MaxFileBytes bounds a file. Effective prints less than 1 KiB, and a topology of 4096 named nodes has some 40 KiB.
const MaxFileBytes = 64 << 10

// A Document is one YAML document decoded strictly: unknown, repeated and empty keys and values of another kind are
// problems, all of which are reported with their lines. It also keeps the line of every value, so that its reader's own
// problems are reported in the same way.
type Document struct {
	file     string
	lines    map[string]int // of each given key and element, by path: "debug.drop", "map[2][0]"; "" is the whole
	problems problems
}

// Read decodes one document into a struct by its yaml tags; values that the document does not give stay. The error is
// about reading in; Err returns the problems of the content. Fields may be structs, slices, pointers (nil is "~", an
// element left out), strings, numbers, bools, durations, and types that unmarshal themselves, from YAML or from text. A
// tag enum lists the words of a field.
func Read(file string, in io.Reader, into any) (*Document, error) {
	d := &Document{file: file, lines: map[string]int{"": 1}}
	text, err := io.ReadAll(io.LimitReader(in, MaxFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	if len(text) > MaxFileBytes {
		d.addProblemAt(0, "", "is larger than %d bytes: this is no configuration", MaxFileBytes)
		return d, nil
	}
	if root := d.parseRoot(text); root != nil {
		d.decodeMapping(root, "", reflect.ValueOf(into).Elem())
	}
	return d, nil
}

// Contains says whether the document has the path.
func (d *Document) Contains(path string) bool { _, ok := d.lines[path]; return ok }

// AddProblem adds a problem of the value at a path, or, if there is none, of the nearest enclosing value.
func (d *Document) AddProblem(path, format string, args ...any) {
	around := path
	for !d.Contains(around) && around != "" {
		around = around[:max(strings.LastIndexAny(around, ".["), 0)]
	}
	d.addProblemAt(d.lines[around], path, format, args...)
}

// Err is an *InvalidError with all problems, or nil.
func (d *Document) Err() error { return d.problems.err() }

func (d *Document) addProblemAt(line int, key, format string, args ...any) {
	d.problems = append(d.problems, Problem{
		File:   d.file,
		Line:   line,
		Key:    key,
		Reason: fmt.Sprintf(format, args...),
	})
}

// parseRoot returns the mapping at the top, or nil if the file is empty or has several documents.
func (d *Document) parseRoot(text []byte) *yaml.Node {
	dec := yaml.NewDecoder(bytes.NewReader(text))
	var doc, more yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return nil
	} else if err != nil {
		d.addSyntaxError(err)
		return nil
	}
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		d.addProblemAt(more.Line, "", "a second document begins here: a configuration has only one")
		return nil
	}
	root := doc.Content[0]
	if root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
		return nil
	}
	return root
}

// addSyntaxError splits the line off the library's message: "yaml: line 3: did not find …".
func (d *Document) addSyntaxError(err error) {
	reason := strings.TrimPrefix(err.Error(), "yaml: ")
	line := 0
	if rest, ok := strings.CutPrefix(reason, "line "); ok {
		number, what, _ := strings.Cut(rest, ": ")
		if n, err := strconv.Atoi(number); err == nil {
			line, reason = n, what
		}
	}
	d.addProblemAt(line, "", "%s", reason)
}

// decodeMapping decodes the keys under path, "" or "debug.", into a struct.
func (d *Document) decodeMapping(node *yaml.Node, path string, into reflect.Value) {
	if node.Kind != yaml.MappingNode {
		d.addProblemAt(node.Line, strings.TrimSuffix(path, "."),
			"expected settings, each on a line of its own as \"key: value\"")
		return
	}
	names, at := yamlKeys(path, into.Type())
	for i := 0; i+1 < len(node.Content); i += 2 {
		keyNode, value := node.Content[i], node.Content[i+1]
		key := path + keyNode.Value
		f, is := at[key]
		switch line, again := d.lines[key]; {
		case again:
			d.addProblemAt(keyNode.Line, key, "is given twice, first on line %d", line)
		case !is || keyNode.Kind != yaml.ScalarNode:
			d.addUnknownKey(keyNode.Line, key, names)
		default:
			d.lines[key] = keyNode.Line
			d.decodeValue(value, key, into.FieldByIndex(f.Index), f.Tag)
		}
	}
}

// addUnknownKey reports a key that is no setting.
func (d *Document) addUnknownKey(line int, key string, names []string) {
	d.addProblemAt(line, key, "there is no such setting; the nearest one is %q", Nearest(key, names))
}

// yamlKeys lists the keys of a struct under path, in its order, and their fields.
func yamlKeys(path string, of reflect.Type) (names []string, at map[string]reflect.StructField) {
	at = map[string]reflect.StructField{}
	for _, f := range reflect.VisibleFields(of) {
		name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if isSection := f.Anonymous; !isSection && name != "" && name != "-" {
			names = append(names, path+name)
			at[path+name] = f
		}
	}
	return names, at
}

// decodeValue decodes the value at a path.
func (d *Document) decodeValue(node *yaml.Node, path string, into reflect.Value, tag reflect.StructTag) {
	unmarshaler, unmarshals := into.Addr().Interface().(yaml.Unmarshaler)
	_, isText := into.Addr().Interface().(encoding.TextUnmarshaler)
	switch kind := into.Kind(); {
	case node.ShortTag() == "!!null":
		d.addProblemAt(node.Line, path, "has no value")
	case unmarshals:
		if err := unmarshaler.UnmarshalYAML(node); err != nil {
			d.addProblemAt(node.Line, path, "%s", err)
		}
	case kind == reflect.Pointer:
		into.Set(reflect.New(into.Type().Elem()))
		d.decodeValue(node, path, into.Elem(), tag)
	case kind == reflect.Struct && !isText:
		d.decodeMapping(node, path+".", into)
	case kind == reflect.Slice && !isText:
		d.decodeList(node, path, into)
	default:
		d.decodeScalar(node, path, into, tag)
	}
}

// decodeList decodes a sequence. In a slice of pointers, an element "~" is nil.
func (d *Document) decodeList(node *yaml.Node, path string, into reflect.Value) {
	if node.Kind != yaml.SequenceNode {
		d.addProblemAt(node.Line, path, "expected a list")
		return
	}
	into.Set(reflect.MakeSlice(into.Type(), len(node.Content), len(node.Content)))
	for i, element := range node.Content {
		at := fmt.Sprintf("%s[%d]", path, i)
		d.lines[at] = element.Line
		if element.ShortTag() == "!!null" && into.Type().Elem().Kind() == reflect.Pointer {
			continue
		}
		d.decodeValue(element, at, into.Index(i), "")
	}
}

// decodeScalar decodes one value.
func (d *Document) decodeScalar(node *yaml.Node, path string, into reflect.Value, tag reflect.StructTag) {
	if node.Kind != yaml.ScalarNode {
		d.addProblemAt(node.Line, path, "expected a single value")
		return
	}
	if err := decodeInto(into, node); err != nil {
		d.addProblemAt(node.Line, path, "%s", err)
		return
	}
	if words, ok := tag.Lookup("enum"); ok {
		if err := checkEnum(into.String(), strings.Split(ExpandVars(words), ",")); err != nil {
			d.addProblemAt(node.Line, path, "%v", err)
		}
	}
}

// describeNumber describes the numbers that a value accepts.
func describeNumber(v reflect.Value) string {
	switch {
	case v.CanInt():
		return "a whole number"
	case v.CanUint():
		return fmt.Sprintf("a whole number that is not negative and fits %d bits", v.Type().Bits())
	}
	return "a number"
}

// decodeNumber reads a number into v. The YAML library and kong would read 010 as octal.
func decodeNumber(v reflect.Value, text string) (err error) {
	switch bits := v.Type().Bits(); {
	case v.CanInt():
		var n int64
		if n, err = decimal.Int(text, bits); err == nil {
			v.SetInt(n)
		}
	case v.CanUint():
		var n uint64
		if n, err = decimal.Uint(text, bits); err == nil {
			v.SetUint(n)
		}
	default:
		var x float64
		if x, err = decimal.Float(text); err == nil {
			v.SetFloat(x)
		}
	}
	switch {
	case errors.Is(err, decimal.ErrForm):
		return fmt.Errorf("%q is not %s: %w", text, describeNumber(v), err)
	case err != nil:
		return fmt.Errorf("%q is not %s", text, describeNumber(v))
	}
	return nil
}

// decodeInto reads one value into v. It checks the kind of the value first, since the YAML library would truncate 1.5
// to a whole number.
func decodeInto(v reflect.Value, node *yaml.Node) error {
	into := v.Addr().Interface()
	if unmarshaler, ok := into.(encoding.TextUnmarshaler); ok {
		return unmarshaler.UnmarshalText([]byte(node.Value))
	}
	var want, tags string
	switch {
	case v.Type() == reflect.TypeFor[time.Duration]():
		if t, err := time.ParseDuration(node.Value); err == nil {
			v.SetInt(int64(t))
			return nil
		}
		want, tags = "a time such as 10s or 1m30s", ""
	case v.CanInt(), v.CanUint(), v.CanFloat():
		if tag := node.ShortTag(); tag == "!!int" || tag == "!!float" {
			return decodeNumber(v, node.Value)
		}
		want, tags = describeNumber(v), ""
	case v.Kind() == reflect.Bool:
		want, tags = "true or false", "!!bool"
	default:
		want, tags = "text", node.ShortTag() // a number or a date is valid text
	}
	if !strings.Contains(tags, node.ShortTag()) || node.Decode(into) != nil {
		return fmt.Errorf("%q is not %s", node.Value, want)
	}
	return nil
}
