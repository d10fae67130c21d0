package study

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"ringlet/internal/safeopen"
	"ringlet/node/config"
)

// Kinds of a figure: what answers it.
const (
	KindSim  = "sim"  // the simulator, within the bounds that the file gives
	KindReal = "real" // the running system alone
	kindBoth = "both" // either
)

// A Study is a question to a model, or a figure of a document that only the running system answers.
type Study struct {
	ID       string        `yaml:"id"`
	Title    string        `yaml:"title"`
	Place    string        `yaml:"place"` // document, section, figure or table
	Kind     string        `yaml:"kind" enum:"sim,real,both"`
	Headline int           `yaml:"headline"` // place among the headline figures; 0 = none
	Model    string        `yaml:"model"`
	Seed     uint64        `yaml:"seed"`
	Slow     bool          `yaml:"slow"` // takes more than some seconds: left out of a quick look
	Includes []string      `yaml:"includes"`
	Params   []Parameter   `yaml:"parameters"`
	Cases    []Case        `yaml:"cases"`
	Expected []Expectation `yaml:"expected"`
	Reading  string        `yaml:"reading"` // how an ambiguous text is read, and why
	Missing  string        `yaml:"missing"` // what no model can answer, and which parameter the document lacks

	// Measured has measurements of the running system, if there are any; it is not in the file.
	Measured []Measurement `yaml:"-"`

	doc *config.Document
}

// A Parameter of a model, with the origin of its value: a line of a document, a fit to another figure, or a choice of
// ours with its reason. Exactly one of the three is given.
type Parameter struct {
	Name   string `yaml:"name"`
	Is     string `yaml:"is"` // a quantity, a word, or several with commas
	From   string `yaml:"from"`
	Fitted string `yaml:"fitted"` // the figure that it was fitted to, never the one that it is judged by
	Chosen string `yaml:"chosen"`

	yamlPath string // its path in the file
	wasRead  bool
}

// A Case gives other values to parameters for which the documents give too little. The model is also run with each
// case, and the study is judged by all outcomes.
type Case struct {
	What   string      `yaml:"what"`
	Params []Parameter `yaml:"parameters"` // replace those of the same names; they need no origin
}

// An Expectation is a result that a document gives, with a tolerance: exactly one of Is, AtLeast, AtMost, Above and
// Below is given.
type Expectation struct {
	Name    string    `yaml:"name"` // of the model's result
	Is      *Quantity `yaml:"is"`
	Within  *Quantity `yaml:"within"` // a share of Is, or points; nil = 10 %
	AtLeast *Quantity `yaml:"at-least"`
	AtMost  *Quantity `yaml:"at-most"`
	Above   string    `yaml:"above"` // name of another result
	Below   string    `yaml:"below"`
	From    string    `yaml:"from"`
	Plot    string    `yaml:"plot"` // name of the model's plot that has it as a point, at X
	X       float64   `yaml:"x"`
}

// A Measurement is a result of the running system, with the command that repeats it.
type Measurement struct {
	What    string
	Is      string
	Verdict string // a word: beaten, matched, not reached, not measured
	Why     string
	By      string // the command
	On      string // machine, load and day
}

// Load reads a file, and the files that it includes from its directory. An invalid file is a *config.InvalidError that
// names the line and the key; a file that cannot be read is an *fs.PathError.
func Load(path string) (*Study, error) {
	f, err := safeopen.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return parse(path, f, os.DirFS(filepath.Dir(path)))
}

// Parse reads a file of a file system, and the files that it includes.
func Parse(from fs.FS, name string) (*Study, error) {
	f, err := from.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return parse(name, f, from)
}

func parse(name string, in io.Reader, from fs.FS) (*Study, error) {
	s := &Study{Seed: 1, Kind: KindSim}
	d, err := config.Read(name, in, s)
	if err != nil {
		return nil, err
	}
	s.doc = d
	if d.Err() == nil {
		s.check()
	}
	if err := d.Err(); err != nil {
		return nil, err
	}
	return s, s.include(from)
}

// check reports what struct tags cannot check.
func (s *Study) check() {
	if s.Model == "" && s.Kind != KindReal && s.Missing == "" {
		s.doc.AddProblem("model", "is missing: name the model that answers, or say under missing what none can give")
	}
	names := map[string]bool{}
	for i := range s.Params {
		p := &s.Params[i]
		p.yamlPath = element("parameters", i)
		s.checkParam(p, 1)
		if names[p.Name] {
			s.doc.AddProblem(p.yamlPath+".name", "%q is given twice", p.Name)
		}
		names[p.Name] = true
	}
	for i := range s.Cases {
		c, at := &s.Cases[i], element("cases", i)
		if c.What == "" || len(c.Params) == 0 {
			s.doc.AddProblem(at, "needs what it is, and the parameters that differ")
		}
		for k := range c.Params {
			c.Params[k].yamlPath = element(at+".parameters", k)
			s.checkParam(&c.Params[k], 0)
		}
	}
	for i, e := range s.Expected {
		at := element("expected", i)
		if e.Name == "" {
			s.doc.AddProblem(at, "needs the name of a result")
		}
		if countTrue(e.Is != nil, e.AtLeast != nil, e.AtMost != nil, e.Above != "", e.Below != "") != 1 {
			s.doc.AddProblem(at, "gives one of is, at-least, at-most, above and below")
		}
		if e.Within != nil && (e.Is == nil || e.Within.Value <= 0 || e.Within.Dimension != Count &&
			e.Within.Dimension != Points) {
			s.doc.AddProblem(at+".within", "is a share such as 10 %%, or points, of what stands under is")
		}
	}
}

// checkParam checks a parameter. Of its fields from, fitted and chosen one may be set at most, and origins (0 or 1) at
// least.
func (s *Study) checkParam(p *Parameter, origins int) {
	if p.Name == "" || p.Is == "" {
		s.doc.AddProblem(p.yamlPath, "needs a name and what it is")
	}
	if n := countTrue(p.From != "", p.Fitted != "", p.Chosen != ""); n < origins || n > 1 {
		s.doc.AddProblem(p.yamlPath, "says where its value comes from by one of from, fitted and chosen")
	}
	if p.fittedTo(s.ID) {
		s.doc.AddProblem(p.yamlPath+".fitted", "is %s, the figure it is judged by", s.ID)
	}
}

// countTrue counts the true values.
func countTrue(each ...bool) (n int) {
	for _, is := range each {
		if is {
			n++
		}
	}
	return n
}
