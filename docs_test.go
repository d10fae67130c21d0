package ringlet

import (
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"ringlet/node/config"
)

// The manual is held to the program: what it lists is read from the program's source. After a change of a setting or a
// flag, `go test . -run Manual -update` writes the tables of docs/reference/configuration.md anew.
var update = flag.Bool("update", false, "write the generated tables of docs/reference")

const manual = "docs/reference/configuration.md"

// ranges of the settings that are numbers, as the manual gives them; the test asks the program whether they are true.
// An empty end means that the type alone bounds it.
var ranges = map[string][2]string{
	"node-memory": {"0", ""}, "control-loss": {"0s", ""}, "decision-timeout": {"0s", ""},
	"nodes": {"0", ""}, "rus": {"0", ""}, "bus": {"0", ""}, "duration": {"0s", ""}, "events": {"0", ""},
	"packing":       {"1", "65535"},
	"fragment-size": {"0", "1GiB"}, "rate": {"0", ""}, "sources": {"0", ""}, "seed": {"0", ""},
	"run-number": {"0", "4294967295"},
	"backlog":    {"0", ""}, "segment-size": {"64KiB", ""}, "segment-time": {"1s", ""},
	"fragment-timeout": {"1ms", ""},
	"max-leap":         {"1", ""}, "flush-after": {"1ms", ""},
	"busy-high": {"1", "100"}, "busy-low": {"0", "99"},
	"debug.barrier-timeout": {"0s", ""}, "debug.suspend-every": {"0s", ""}, "debug.suspend-for": {"0s", ""},
	"silence":     {"2s", "12s"},
	"phase-slack": {"-1", "16"},
	"slots":       {"0", "65535"}, "slot-size": {"0", ""}, "debug.look-ahead": {"0", "65535"},
	"prepared":          {"0", "1048576"},
	"debug.pull-window": {"0", ""}, "debug.drop": {"0", "0.5"},
	"debug.large-ru": {"0", ""}, "debug.large-every": {"0", ""}, "debug.large-factor": {"1", "65535"},
}

// beyond is what must be refused next to the end of a range.
var beyond = map[string]string{"0s": "-1ns", "0": "-1", "1": "0", "65535": "65536", "1048576": "1048577",
	"0.5": "0.51", "16": "17", "-1": "-2", "4294967295": "4294967296",
	"64KiB": "65535", "1GiB": "1073741825", "1s": "999ms", "1ms": "999us", "100": "101", "99": "100", "2s": "1.9s",
	"12s": "12.1s"}

type setting struct {
	key, flag, group string
	tag              reflect.StructTag
	kind             reflect.Type
}

func settings(of reflect.Type, path, prefix string) []setting {
	var out []setting
	for i := range of.NumField() {
		f := of.Field(i)
		key := f.Tag.Get("yaml")
		if key == "-" || f.Tag.Get("kong") == "-" {
			continue
		}
		if f.Anonymous { // a section
			out = append(out, settings(f.Type, path, prefix)...)
			continue
		}
		if p, nested := f.Tag.Lookup("prefix"); nested {
			out = append(out, settings(f.Type, path+key+".", prefix+p)...)
			continue
		}
		out = append(out, setting{path + key, prefix + key, f.Tag.Get("group"), f.Tag, f.Type})
	}
	return out
}

// yamlOf writes one setting as a file would.
func yamlOf(key, value string) []byte {
	if group, name, nested := strings.Cut(key, "."); nested {
		return fmt.Appendf(nil, "%s:\n  %s: %s\n", group, name, value)
	}
	return fmt.Appendf(nil, "%s: %s\n", key, value)
}

// along is what a setting has to be given with.
var along = map[string]string{
	"fragment-size":     "fragment-model: constant\npacking: 1\n", // the one that reaches the end
	"debug.pull-window": "discipline: pull\n",
	"decision-timeout":  "decision-node: n1\n",
	"busy-high":         "busy-low: 0\n",
	"busy-low":          "busy-high: 100\n",
}

func accepted(key, value string) error {
	text := yamlOf(key, value)
	text = append(text, along[key]...)
	read := config.Compose
	if key == "rus" || key == "bus" { // which cannot be given alone
		read = func(name string, text []byte, _ []string) (config.Completed, error) {
			return config.Restore(name, text)
		}
	}
	_, err := read("test", text, nil)
	return err
}

func TestManualGivesTrueRanges(t *testing.T) {
	for _, s := range settings(reflect.TypeFor[config.Config](), "", "") {
		number := s.kind.Kind() != reflect.String && s.kind.Kind() != reflect.Bool
		r, listed := ranges[s.key]
		if number != listed {
			t.Errorf("%s: a number %v, with a range %v", s.key, number, listed)
		}
		for _, end := range r {
			if end == "" {
				continue
			}
			if err := accepted(s.key, end); err != nil {
				t.Errorf("%s: %s is refused: %v", s.key, end, err)
			}
			if s.key == "rus" || s.key == "bus" {
				continue
			}
			if over := beyond[end]; over == "" || accepted(s.key, over) == nil {
				t.Errorf("%s: %q, beyond %s, is taken", s.key, over, end)
			}
		}
	}
}

// allowed says what a setting may be, where neither its help nor the introduction of the list does: a text may be what
// the help says, a number 0 or more.
func allowed(s setting, help string) string {
	if all, ok := s.tag.Lookup("enum"); ok {
		words := strings.Split(strings.Trim(config.ExpandVars(all), ","), ",")
		for _, word := range words {
			if !regexp.MustCompile(`(^|[ (])` + regexp.QuoteMeta(word) + `([ ,.:)]|$)`).MatchString(help) {
				return strings.Join(words, ", ")
			}
		}
		return ""
	}
	switch r, ok := ranges[s.key]; {
	case !ok && s.kind.Kind() == reflect.Bool && s.tag.Get("default") == "":
		return "false"
	case r[1] != "":
		return r[0] + " to " + r[1]
	case ok && r[0] != "0" && r[0] != "0s":
		return r[0] + " or more"
	}
	return ""
}

func settingsList() string {
	var b strings.Builder
	group := ""
	for _, s := range settings(reflect.TypeFor[config.Config](), "", "") {
		if s.group != group {
			group = s.group
			fmt.Fprintf(&b, "\n### %s\n\n", group)
		}
		help := config.ExpandVars(strings.ReplaceAll(s.tag.Get("help"), "${enum}",
			strings.ReplaceAll(s.tag.Get("enum"), ",", ", ")))
		about := strings.Trim(s.tag.Get("default")+"; "+allowed(s, help), "; ")
		if about != "" {
			about = " (" + about + ")"
		}
		fmt.Fprintf(&b, "- `%s`%s: %s\n", s.key, about, help)
	}
	return b.String()
}

// A command of the program and the flags that it has beside the settings, read from its source.
type command struct {
	name  string
	flags []commandFlag
}

type commandFlag struct {
	name     string
	tag      reflect.StructTag
	argument bool
}

// commands reads the structs that kong reads.
func commands(t *testing.T) []command {
	t.Helper()
	structs := map[string]*ast.StructType{}
	for _, file := range files(t, ".go") {
		if path.Dir(file) != "cmd/ringlet" {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, read(t, file), 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if s, ok := n.(*ast.TypeSpec); ok {
				if st, ok := s.Type.(*ast.StructType); ok {
					structs[s.Name.Name] = st
				}
			}
			return true
		})
	}
	var out []command
	for _, f := range structs["cli"].Fields.List {
		of, ok := f.Type.(*ast.Ident)
		if !ok || len(f.Names) != 1 {
			t.Fatal("cli: a command that is no struct of its own")
		}
		out = append(out, commandsOf(structs, kebab(f.Names[0].Name), of.Name)...)
	}
	return out
}

// commandsOf lists a command, or in its place those that stand below it. Hidden ones are not for users.
func commandsOf(structs map[string]*ast.StructType, name, of string) []command {
	var below []command
	nested := false
	for _, f := range structs[of].Fields.List {
		inner, ok := f.Type.(*ast.Ident)
		if f.Tag == nil || !ok || len(f.Names) != 1 {
			continue
		}
		text, _ := strconv.Unquote(f.Tag.Value)
		tag := reflect.StructTag(text)
		if _, cmd := tag.Lookup("cmd"); !cmd {
			continue
		}
		nested = true
		if _, hidden := tag.Lookup("hidden"); !hidden {
			below = append(below, commandsOf(structs, name+" "+cmp.Or(tag.Get("name"), kebab(f.Names[0].Name)), inner.Name)...)
		}
	}
	if nested {
		return below
	}
	return []command{{name, flagsOf(structs, of)}}
}

func flagsOf(structs map[string]*ast.StructType, name string) []commandFlag {
	var out []commandFlag
	for _, f := range structs[name].Fields.List {
		if len(f.Names) == 0 {
			if of, ok := f.Type.(*ast.Ident); ok {
				out = append(out, flagsOf(structs, of.Name)...)
			}
			continue // the settings
		}
		tag := reflect.StructTag("")
		if f.Tag != nil {
			text, _ := strconv.Unquote(f.Tag.Value)
			tag = reflect.StructTag(text)
		}
		if _, hidden := tag.Lookup("hidden"); hidden || tag.Get("kong") == "-" {
			continue
		}
		_, arg := tag.Lookup("arg")
		out = append(out, commandFlag{cmp.Or(tag.Get("name"), kebab(f.Names[0].Name)), tag, arg})
	}
	return out
}

// kebab is how kong makes a flag of a field: WithParent is with-parent.
func kebab(s string) string {
	var b strings.Builder
	for i, r := range s {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// listed are the commands whose flags the manual lists: those that make a run, and what they need. The flags of tools
// are in --help alone.
var listed = map[string]bool{"run": true, "control": true, "node": true, "certs": true}

// flagsList has the flags of each command; those that a command before has in the same way are named alone.
func flagsList(t *testing.T) string {
	var b strings.Builder
	first := map[string]string{}
	for _, c := range commands(t) {
		family, _, _ := strings.Cut(c.name, " ")
		if len(c.flags) == 0 || !listed[family] {
			continue
		}
		fmt.Fprintf(&b, "\n### ringlet %s\n\n", c.name)
		same := map[string][]string{}
		for _, f := range c.flags {
			line := flagLine(&f)
			if of := first[line]; of != "" && of != c.name {
				same[of] = append(same[of], "`--"+f.name+"`")
				continue
			}
			first[line] = c.name
			fmt.Fprintf(&b, "- %s\n", line)
		}
		for _, of := range slices.Sorted(maps.Keys(same)) {
			fmt.Fprintf(&b, "- %s: as of `ringlet %s`\n", strings.Join(same[of], ", "), of)
		}
	}
	return b.String()
}

// flagLine has the name, the default and the help.
func flagLine(f *commandFlag) string {
	name := "`--" + f.name + "`"
	if short := f.tag.Get("short"); short != "" {
		name += ", `-" + short + "`"
	}
	if f.argument {
		name = "`" + f.name + "`"
	}
	def := f.tag.Get("default")
	if _, required := f.tag.Lookup("required"); required || f.argument {
		def = "required"
	}
	if _, optional := f.tag.Lookup("optional"); optional {
		def = ""
	}
	if def != "" {
		name += " (" + def + ")"
	}
	return name + ": " + strings.ReplaceAll(f.tag.Get("help"), "${enum}",
		strings.ReplaceAll(f.tag.Get("enum"), ",", ", "))
}

func TestManualListsSettingsAndFlags(t *testing.T) {
	text := string(read(t, manual))
	for name, table := range map[string]string{"settings": settingsList(), "flags": flagsList(t)} {
		mark := regexp.MustCompile(`(?s)(<!-- ` + name + `:[^\n]*-->\n).*?(<!-- end of ` + name + ` -->)`)
		if !mark.MatchString(text) {
			t.Fatalf("%s has no place for the table of %s", manual, name)
		}
		text = mark.ReplaceAllStringFunc(text, func(old string) string {
			m := mark.FindStringSubmatch(old)
			return m[1] + table + "\n" + m[2]
		})
	}
	if text == string(read(t, manual)) {
		return
	}
	if !*update {
		t.Fatalf("%s is not what the program has: run `go test . -run Manual -update`", manual)
	}
	if err := os.WriteFile(manual, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestIndexListsEveryDocument(t *testing.T) {
	const index = "docs/README.md"
	text := string(read(t, index))
	for _, file := range files(t, ".md") {
		if rest, under := strings.CutPrefix(file, "docs/"); under && file != index && !strings.Contains(text, "]("+rest+")") {
			t.Errorf("%s does not list %s", index, file)
		}
	}
}

// Documents speak of no flag that does not exist.
func TestManualNamesNoOtherFlag(t *testing.T) {
	known := map[string]bool{"help": true}
	for _, s := range settings(reflect.TypeFor[config.Config](), "", "") {
		known[s.flag] = true
	}
	for _, c := range commands(t) {
		for _, f := range c.flags {
			known[f.name] = known[f.name] || !f.argument
		}
	}
	// The converter is a program of another module: its flags are the fields of its struct.
	humps := regexp.MustCompile(`[A-Z][a-z]+`)
	for _, m := range regexp.MustCompile("(?m)^\t([A-Z][A-Za-z]*) .*`.*help:").FindAllSubmatch(
		read(t, "convert/main.go"), -1) {
		known[strings.ToLower(strings.Join(humps.FindAllString(string(m[1]), -1), "-"))] = true
	}
	for _, tried := range []string{"remark", "filter-program"} { // which design notes name as rejected
		known[tried] = true
	}
	others := regexp.MustCompile(`(?m)^.*(\bbuf curl |--enable-only).*$`) // flags of other programs
	flagged := regexp.MustCompile(`(?:^|[\s` + "`" + `'(])--([a-z][a-z0-9-]*)`)
	for _, file := range files(t, ".md") {
		dir, _, _ := strings.Cut(file, "/")
		if dir != "docs" && dir != file || file == "docs/dependencies.md" {
			continue
		}
		for _, m := range flagged.FindAllSubmatch(others.ReplaceAll(read(t, file), nil), -1) {
			if !known[string(m[1])] {
				t.Errorf("%s speaks of --%s, which no command has", file, m[1])
			}
		}
	}
}
