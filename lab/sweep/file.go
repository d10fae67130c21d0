package sweep

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"

	"go.yaml.in/yaml/v3"

	"ringlet/internal/safeopen"
	"ringlet/lab/testbed"
	"ringlet/lab/trial"
	"ringlet/node/config"
)

// Sweep is a valid sweep file.
type Sweep struct {
	Name           string
	File           string // its base name
	Text           string
	Hash           string // SHA-256 of the text, hexadecimal
	BedsHash       string // of the files of the test beds, as Load found them; "" = no such files
	Repeat         int
	Seed           uint64
	ReferenceEvery int // runs between two references
	Cells          []Cell
	References     []string // raw measurements of the machine, each taken once in each round
	Bounds         []trial.Bound
}

// Limits of a sweep file.
const (
	// maxCells takes most of a day with runs of 6 s and five rounds. More are a mistake: the user forgot that lists
	// multiply.
	maxCells  = 2000
	maxRepeat = 1000
	// With defaultEvery, a reference of a second for every ten runs of some 6 s takes 2 % of the time.
	defaultEvery  = 10
	defaultRepeat = 3
)

// sweepFile is a sweep file as written. Keys at the top apply to every series.
type sweepFile struct {
	Name           string          `yaml:"name"`
	Repeat         int             `yaml:"repeat"`
	Seed           uint64          `yaml:"seed"`
	ReferenceEvery int             `yaml:"reference-every"`
	Testbed        settings        `yaml:"testbed"`
	Control        settings        `yaml:"control"`
	PortRate       testbed.Rate    `yaml:"port-rate"`
	Fixed          settings        `yaml:"fixed"`
	Vary           settings        `yaml:"vary"`
	Series         []writtenSeries `yaml:"series"`
	References     []string        `yaml:"references"`
	Bounds         []trial.Bound   `yaml:"bounds"`
}

type writtenSeries struct {
	Name     string       `yaml:"name"`
	Says     string       `yaml:"says"`
	Testbed  settings     `yaml:"testbed"`
	Control  settings     `yaml:"control"`
	PortRate testbed.Rate `yaml:"port-rate"`
	Fixed    settings     `yaml:"fixed"`
	Vary     settings     `yaml:"vary"`
}

// settings keeps a mapping undecoded: its keys are looked up when a configuration is made.
type settings struct{ node *yaml.Node }

// UnmarshalYAML keeps the node.
func (s *settings) UnmarshalYAML(node *yaml.Node) error {
	s.node = node
	return nil
}

// goodName matches names that can be those of files and curves.
var goodName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9 ._+%-]{0,63}$`)

// fileSetting is one setting of the file: a value, or a list of them.
type fileSetting struct {
	key   string // path, parts separated by dots
	line  int
	value *yaml.Node
}

// seriesBlock is a series as written, or the keys at the top for all series.
type seriesBlock struct {
	name    string
	says    string
	line    int
	bedKind string        // "", Testbed or Control
	flags   []fileSetting // of the bed
	portBps float64       // bit/s; 0: the rate of the bed's ports
	fixed   []fileSetting
	vary    []fileSetting
}

// BedSummary is what the program knows about the bed of a command line.
type BedSummary struct {
	Hosts   int     // of a test bed; 0 = a host for each node
	PortBps float64 // bit/s of the slowest host's port, which limits all; 0 = not known
}

// Check has the program check a command line, and describes the bed.
type Check func(args []string) (BedSummary, error)

// Load reads a sweep file and expands it. Invalid content is a *config.InvalidError that names file and line; a file
// that cannot be read is an *fs.PathError.
func Load(path string, check Check) (*Sweep, error) {
	text, err := safeopen.ReadFile(path, safeopen.MaxTextSize)
	if err != nil {
		return nil, err
	}
	s, err := Parse(path, text, check)
	if err == nil {
		s.BedsHash, err = hashBeds(s.Cells)
	}
	return s, err
}

// hashBeds is the hash of the files that describe the cells' test beds. Results of another bed belong to another sweep.
func hashBeds(cells []Cell) (string, error) {
	sum, seen := sha256.New(), map[string]bool{}
	for i := range cells {
		for _, f := range cells[i].Bed.Flags {
			if cells[i].Bed.Kind != Testbed || f.Key != "bed" || seen[f.Text] {
				continue
			}
			seen[f.Text] = true
			text, err := safeopen.ReadFile(f.Text, safeopen.MaxTextSize)
			if err != nil {
				return "", err
			}
			one := sha256.Sum256(text)
			sum.Write(one[:])
		}
	}
	if len(seen) == 0 {
		return "", nil
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// Parse is Load for text in memory; path names the file in errors.
func Parse(path string, text []byte, check Check) (*Sweep, error) {
	w := sweepFile{Repeat: defaultRepeat, Seed: 1, ReferenceEvery: defaultEvery}
	doc, err := config.Read(path, bytes.NewReader(text), &w)
	if err != nil {
		return nil, err
	}
	within := func(key string, v, least, most int) {
		if v < least || v > most {
			doc.AddProblem(key, "%d is not between %d and %d", v, least, most)
		}
	}
	within("repeat", w.Repeat, 1, maxRepeat)
	within("reference-every", w.ReferenceEvery, 0, maxCells)
	if !goodName.MatchString(w.Name) {
		doc.AddProblem("name", "results are filed under it: give letters, digits, blanks and . _ + %% -, at most 64 of them")
	}
	r := reader{file: path, check: check, seenCells: map[string]bool{}}
	blocks := r.blocks(doc, &w)
	if err := doc.Err(); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	s := &Sweep{
		Name:           w.Name,
		File:           filepath.Base(path),
		Text:           string(text),
		Hash:           hex.EncodeToString(sum[:]),
		Repeat:         w.Repeat,
		Seed:           w.Seed,
		ReferenceEvery: w.ReferenceEvery,
	}
	if r.err() == nil {
		r.expand(s, blocks)
	}
	if r.err() == nil {
		s.References = w.References
		s.Bounds = boundsOf(doc, s, w.Bounds)
		if err := doc.Err(); err != nil {
			return nil, err
		}
	}
	if err := r.err(); err != nil {
		return nil, err
	}
	return s, nil
}

// reader makes cells from a file, and collects the problems of their settings.
type reader struct {
	file      string
	check     Check
	problems  []config.Problem
	seenCells map[string]bool // by ID
}

func (r *reader) add(line int, key, format string, args ...any) {
	r.problems = append(r.problems, config.Problem{
		File:   r.file,
		Line:   line,
		Key:    key,
		Reason: fmt.Sprintf(format, args...),
	})
}

func (r *reader) err() error {
	if len(r.problems) == 0 {
		return nil
	}
	return &config.InvalidError{Problems: r.problems}
}

// blocks lists the series, each with the keys at the top.
func (r *reader) blocks(doc *config.Document, w *sweepFile) []seriesBlock {
	all := r.block(doc, "", writtenSeries{
		Name:     w.Name,
		Testbed:  w.Testbed,
		Control:  w.Control,
		PortRate: w.PortRate,
		Fixed:    w.Fixed,
		Vary:     w.Vary,
	})
	if w.Series == nil {
		return []seriesBlock{all}
	}
	if len(w.Series) == 0 {
		doc.AddProblem("series", "has none: leave it out, or give one with a name")
	}
	var out []seriesBlock
	names := map[string]bool{}
	for i, one := range w.Series {
		at := fmt.Sprintf("series[%d]", i)
		switch {
		case !goodName.MatchString(one.Name):
			doc.AddProblem(at+".name",
				"a series is called by it: give letters, digits, blanks and . _ + %% -, at most 64 of them")
		case names[one.Name]:
			doc.AddProblem(at+".name", "another series is called %q too", one.Name)
		}
		names[one.Name] = true
		out = append(out, inherit(all, r.block(doc, at+".", one)))
	}
	return out
}

// block reads the mappings of a series, or at the top.
func (r *reader) block(doc *config.Document, at string, w writtenSeries) seriesBlock {
	b := seriesBlock{name: w.Name, says: w.Says, portBps: float64(w.PortRate)}
	switch {
	case w.Testbed.node != nil && w.Control.node != nil:
		doc.AddProblem(at+Control, "runs are in a test bed or on nodes that are there: give one of the two")
	case w.Testbed.node != nil:
		b.bedKind, b.flags, b.line = Testbed, r.leaves(w.Testbed.node, "", Testbed, false), w.Testbed.node.Line
	case w.Control.node != nil:
		b.bedKind, b.flags, b.line = Control, r.leaves(w.Control.node, "", Control, false), w.Control.node.Line
	}
	for _, n := range []*yaml.Node{w.Fixed.node, w.Vary.node} {
		if n != nil && b.line == 0 {
			b.line = n.Line
		}
	}
	b.fixed, b.vary = r.leaves(w.Fixed.node, "", "fixed", false), r.leaves(w.Vary.node, "", "vary", true)
	return b
}

// leaves flattens nested mappings: {debug: {drop: 0.1}} and {debug.drop: 0.1} are the same.
func (r *reader) leaves(node *yaml.Node, path, what string, lists bool) []fileSetting {
	if node == nil {
		return nil
	}
	if node.Kind != yaml.MappingNode {
		r.add(node.Line, what, "expected settings, each on a line of its own as \"key: value\"")
		return nil
	}
	var out []fileSetting
	for i := 0; i+1 < len(node.Content); i += 2 {
		k, v := node.Content[i], node.Content[i+1]
		key := path + k.Value
		switch {
		case v.Kind == yaml.MappingNode:
			out = append(out, r.leaves(v, key+".", what, lists)...)
		case v.ShortTag() == "!!null" || v.Kind == yaml.AliasNode:
			r.add(v.Line, key, "has no value of its own")
		case lists && (v.Kind != yaml.SequenceNode || len(v.Content) == 0):
			r.add(v.Line, key, "expected a list of values to vary over, as [1, 2]; a single value stands under fixed")
		default:
			out = append(out, fileSetting{key, k.Line, v})
		}
	}
	seen := map[string]int{}
	for _, l := range out {
		if first := seen[l.key]; first > 0 {
			r.add(l.line, l.key, "is given twice, first on line %d", first)
		}
		seen[l.key] = l.line
	}
	return out
}

// inherit adds to a series the settings at the top that it does not override: a series may vary a setting that the top
// fixes, and the reverse.
func inherit(all, overrides seriesBlock) seriesBlock {
	fixed, vary := overrides.fixed, overrides.vary
	overrides.fixed = append(exclude(all.fixed, fixed, vary), fixed...)
	overrides.vary = append(exclude(all.vary, fixed, vary), vary...)
	if overrides.bedKind == "" || overrides.bedKind == all.bedKind {
		overrides.bedKind, overrides.flags = all.bedKind, append(exclude(all.flags, overrides.flags), overrides.flags...)
	}
	overrides.portBps, overrides.line = cmp.Or(overrides.portBps, all.portBps), cmp.Or(overrides.line, all.line)
	return overrides
}

// exclude leaves out the settings that one of the other lists has.
func exclude(list []fileSetting, others ...[]fileSetting) []fileSetting {
	var out []fileSetting
	for _, l := range list {
		if !slices.ContainsFunc(slices.Concat(others...), func(o fileSetting) bool { return o.key == l.key }) {
			out = append(out, l)
		}
	}
	return out
}
