package counter

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unicode"
)

// Kind says how the values of a counter from several components are combined.
type Kind string

// The kinds.
const (
	Count Kind = "counter" // how often something happened: it only grows, and the values add up
	Level Kind = "level"   // how much there is now: the values add up
	Max   Kind = "max"     // the most there ever was: the largest value counts
)

// Micros is the unit of times.
const Micros = "µs"

// Counter describes a counter, or with ByKind all counters whose names begin with Name.
type Counter struct {
	Name   string `json:"name"`           // with a dot between its owner and the rest
	Unit   string `json:"unit,omitempty"` // Micros, "bytes", or empty: the name tells what is counted
	Help   string `json:"help"`
	Kind   Kind   `json:"kind"`
	ByKind bool   `json:"byKind,omitempty"` // the name of a member follows Name; only reports know the members
}

// kinds gives the names of the members of an array of counters; members with an empty name are left out.
type kinds interface{ Kinds() []string }

// List describes counters, in the order of the fields they are counted in.
type List []Counter

// Struct knows the fields of a struct that are counters.
type Struct struct{ fields []field }

type field struct {
	Counter
	path    []int
	members []string // of an array
	inner   *field   // of a map of structs: the field in each struct
}

// StructOf reads the tags of the struct a, or of the struct that a points to; it ignores the values. It panics if a tag
// is missing or wrong.
func StructOf(a any) Struct { return Struct{appendFields(nil, reflect.TypeOf(a), "", nil)} }

// List describes the counters of the struct.
func (s Struct) List() (out List) {
	for _, f := range s.fields {
		if f.ByKind || f.members == nil {
			out = append(out, f.Counter)
			continue
		}
		for _, member := range f.members {
			if c := f.Counter; member != "" {
				c.Name += member
				out = append(out, c)
			}
		}
	}
	return out
}

// Read puts the counters of a struct of this type, given by a pointer to it, into a map by their names.
func (s Struct) Read(to map[string]uint64, from any) {
	v := reflect.ValueOf(from).Elem()
	for i := range s.fields {
		if at, err := v.FieldByIndexErr(s.fields[i].path); err == nil { // the error: a pointer on the path is nil
			s.fields[i].read(to, at)
		}
	}
}

// Find finds the description of a counter by its name in a report.
func (l List) Find(name string) (c Counter, ok bool) {
	for _, c := range l {
		if c.Name == name || c.ByKind && strings.HasPrefix(name, c.Name) {
			return c, true
		}
	}
	return c, false
}

// AddReport adds the counters of one report to the sums of other reports, by their kinds. Counters that are not in the
// list add up.
func (l List) AddReport(sums, report map[string]uint64) {
	for name, v := range report {
		sums[name] += v
	}
	for i := range l {
		if l[i].Kind != Max {
			continue
		}
		if v, reported := report[l[i].Name]; reported {
			sums[l[i].Name] = max(sums[l[i].Name]-v, v)
		}
	}
}

func (f *field) read(to map[string]uint64, v reflect.Value) {
	if f.inner != nil {
		one := map[string]uint64{}
		for key, member := range v.Seq2() {
			f.inner.read(one, member.FieldByIndex(f.inner.path))
			f.putMember(to, underscored(key.String()), one[f.inner.Name])
		}
		return
	}
	switch v.Kind() {
	case reflect.Array:
		for i, member := range f.members {
			if member != "" {
				f.putMember(to, member, v.Index(i).Uint())
			}
		}
	case reflect.Map:
		for key, n := range v.Seq2() {
			f.putMember(to, underscored(key.String()), n.Uint())
		}
	case reflect.Struct:
		to[f.Name] = v.Addr().Interface().(*atomic.Uint64).Load()
	case reflect.Uint64:
		to[f.Name] = v.Uint()
	default:
		n := v.Int()
		if v.Type() == durationType {
			n = time.Duration(n).Microseconds()
		}
		to[f.Name] = uint64(max(0, n))
	}
}

func (f *field) putMember(to map[string]uint64, member string, n uint64) {
	if n > 0 || !f.ByKind {
		to[f.Name+member] = n
	}
}

var (
	durationType = reflect.TypeFor[time.Duration]()
	atomicType   = reflect.TypeFor[atomic.Uint64]()
)

// appendFields appends the fields of a struct, at a path, whose names begin with prefix.
func appendFields(out []field, t reflect.Type, prefix string, path []int) []field {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	for i := range t.NumField() {
		f := t.Field(i)
		name, named := f.Tag.Lookup("count")
		at := slices.Concat(path, []int{i})
		inner := f.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		switch {
		case name == "-":
		case inner.Kind() == reflect.Map && inner.Elem().Kind() == reflect.Struct && named:
			out = append(out, memberFields(inner.Elem(), prefix+name, at)...)
		case inner.Kind() == reflect.Struct && inner != atomicType:
			if named || f.Anonymous {
				out = appendFields(out, inner, prefix+name, at)
			}
		case isNumeric(f.Type):
			if !named {
				name = snake(f.Name)
				if f.Type == durationType {
					name += "_us"
				}
			}
			out = append(out, describe(t, &f, prefix+name, at))
		}
	}
	return out
}

// memberFields describes the fields of the structs in a map, whose members a report names.
func memberFields(t reflect.Type, prefix string, path []int) (out []field) {
	for _, inner := range appendFields(nil, t, prefix, nil) {
		c := inner.Counter
		c.Name, c.ByKind = c.Name+".", true
		out = append(out, field{Counter: c, path: path, inner: &inner})
	}
	return out
}

// isNumeric says whether a field of this type can be a counter, and therefore needs a tag.
func isNumeric(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Array, reflect.Map:
		return t.Elem().Kind() == reflect.Uint64
	case reflect.Uint64, reflect.Int, reflect.Int64:
		return true
	}
	return t == atomicType
}

func describe(in reflect.Type, f *reflect.StructField, name string, path []int) field {
	c := Counter{
		Name: name,
		Unit: f.Tag.Get("unit"),
		Help: f.Tag.Get("help"),
		Kind: Kind(f.Tag.Get("kind")),
	}
	out := field{path: path}
	switch c.Kind {
	case "":
		c.Kind = Count
	case Level, Max:
	default:
		panic(fmt.Sprintf("counter: %s.%s is of the kind %q, which is none", in, f.Name, c.Kind))
	}
	if f.Type == durationType {
		c.Unit = Micros
	}
	c.ByKind = strings.HasSuffix(name, ".")
	if names, ok := reflect.Zero(f.Type).Interface().(kinds); ok {
		for _, member := range names.Kinds() {
			out.members = append(out.members, underscored(member))
		}
	}
	switch {
	case c.Help == "" || !f.IsExported():
		panic(fmt.Sprintf(`counter: no report has %s.%s: export it and give it a tag help:"…", or count:"-"`, in, f.Name))
	case f.Type.Kind() == reflect.Map && !c.ByKind, f.Type.Kind() == reflect.Array && len(out.members) != f.Type.Len():
		panic(fmt.Sprintf("counter: %s.%s does not say the names of its members", in, f.Name))
	}
	out.Counter = c
	return out
}

// underscored replaces the blanks in a member's name.
func underscored(s string) string { return strings.ReplaceAll(s, " ", "_") }

// snake turns BytesSent into bytes_sent, and AESFailed into aes_failed.
func snake(s string) string {
	var b strings.Builder
	for i, r := range s {
		next := i+1 < len(s) && unicode.IsLower(rune(s[i+1]))
		if i > 0 && unicode.IsUpper(r) && (next || unicode.IsLower(rune(s[i-1]))) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
