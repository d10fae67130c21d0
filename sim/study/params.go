package study

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strconv"
	"strings"

	"ringlet/node/config"
	"ringlet/sim"
)

// common is a file that several figures include, with the parameters that they share.
type common struct {
	Params []Parameter `yaml:"parameters"`
}

// element is the path of an element of a list.
func element(list string, i int) string { return list + "[" + strconv.Itoa(i) + "]" }

// include adds the parameters of included files; the study's own parameters win. Included parameters may stay unread,
// as the file serves several figures.
func (s *Study) include(from fs.FS) error {
	for i, name := range s.Includes {
		f, err := from.Open(name)
		if err != nil {
			s.doc.AddProblem(element("includes", i), "%v", err)
			return s.doc.Err()
		}
		var c common
		d, err := config.Read(name, f, &c)
		if err = errors.Join(err, f.Close()); err == nil {
			err = d.Err()
		}
		if err != nil {
			return err
		}
		for _, p := range c.Params {
			if slices.ContainsFunc(s.Params, func(q Parameter) bool { return q.Name == p.Name }) {
				continue
			}
			if p.fittedTo(s.ID) {
				s.doc.AddProblem(element("includes", i), "%s is fitted to %s, the figure it is judged by", p.Name, s.ID)
			}
			s.Params = append(s.Params, p)
		}
	}
	for _, c := range s.Cases {
		for _, p := range c.Params {
			if !slices.ContainsFunc(s.Params, func(q Parameter) bool { return q.Name == p.Name }) {
				s.doc.AddProblem(p.yamlPath, "%s is no parameter of the study, whose value a case could change", p.Name)
			}
		}
	}
	return s.doc.Err()
}

// with is the study with the parameters of a case.
func (s *Study) with(c *Case) *Study {
	other := *s
	other.Params = slices.Clone(s.Params)
	for _, p := range c.Params {
		other.Params[slices.IndexFunc(other.Params, func(q Parameter) bool { return q.Name == p.Name })] = p
	}
	return &other
}

// fittedTo reports whether the parameter is fitted to a figure.
func (p *Parameter) fittedTo(id string) bool { return id != "" && strings.Contains(p.Fitted, id) }

// Params are the parameters of a study, for its model.
type Params struct {
	s *Study
}

// Err is a *config.InvalidError with all problems of the parameters read so far, or nil. A model checks it before it
// begins.
func (p *Params) Err() error { return p.s.doc.Err() }

// AddError reports an invalid value of a parameter.
func (p *Params) AddError(name, format string, args ...any) {
	path := "parameters"
	if i := p.index(name); i >= 0 && p.s.Params[i].yamlPath != "" {
		path = p.s.Params[i].yamlPath
	}
	p.s.doc.AddProblem(path, name+": "+format, args...)
}

func (p *Params) index(name string) int {
	return slices.IndexFunc(p.s.Params, func(q Parameter) bool { return q.Name == name })
}

// texts are the values of a parameter as written.
func (p *Params) texts(name string) []string {
	i := p.index(name)
	if i < 0 {
		p.s.doc.AddProblem("parameters", "%s is missing: the model %s needs it", name, p.s.Model)
		return nil
	}
	p.s.Params[i].wasRead = true
	all := strings.Split(p.s.Params[i].Is, ",")
	for i := range all {
		all[i] = strings.TrimSpace(all[i])
	}
	return all
}

// Quantities are the values of a parameter, in a dimension.
func (p *Params) Quantities(name string, of Dimension) []float64 {
	var all []float64
	for _, text := range p.texts(name) {
		var q Quantity
		switch err := q.UnmarshalText([]byte(text)); {
		case err != nil:
			p.AddError(name, "%v", err)
		case q.Dimension != of:
			p.AddError(name, "%s is not in %s", text, dimensionOrNumber(of))
		}
		all = append(all, q.Value)
	}
	return all
}

func dimensionOrNumber(of Dimension) string {
	if of == Count {
		return "a plain number"
	}
	return string(of)
}

// Quantity is the single value of a parameter, in a dimension; NaN if there is none.
func (p *Params) Quantity(name string, of Dimension) float64 {
	all := p.Quantities(name, of)
	if len(all) > 1 {
		p.AddError(name, "has %d values where the model %s takes one", len(all), p.s.Model)
	}
	if len(all) == 0 {
		return math.NaN()
	}
	return all[0]
}

// Time is a parameter in simulated time, to the nearest picosecond. It is not negative.
func (p *Params) Time(name string) sim.Time {
	s := p.Quantity(name, Time)
	if s < 0 {
		p.AddError(name, "is negative")
	}
	if !(s >= 0 && s < 1e6) {
		return 0
	}
	return sim.Time(math.Round(s * float64(sim.Second)))
}

// Int is a whole number within bounds.
func (p *Params) Int(name string, least, most int) int {
	return p.integer(name, p.Quantity(name, Count), least, most)
}

// Ints are several whole numbers within bounds.
func (p *Params) Ints(name string, least, most int) []int {
	var all []int
	for _, v := range p.Quantities(name, Count) {
		all = append(all, p.integer(name, v, least, most))
	}
	return all
}

// Size is a number of bytes within bounds.
func (p *Params) Size(name string, least, most int) int {
	return p.integer(name, p.Quantity(name, Bytes), least, most)
}

// Sizes are several numbers of bytes within bounds.
func (p *Params) Sizes(name string, least, most int) []int {
	var all []int
	for _, v := range p.Quantities(name, Bytes) {
		all = append(all, p.integer(name, v, least, most))
	}
	return all
}

func (p *Params) integer(name string, v float64, least, most int) int {
	if math.IsNaN(v) { // already reported
		return least
	}
	if v != math.Trunc(v) || v < float64(least) || v > float64(most) {
		p.AddError(name, "%v is no whole number between %d and %d", v, least, most)
		return least
	}
	return int(v)
}

// Number is a plain number or a share.
func (p *Params) Number(name string) float64 { return p.Quantity(name, Count) }

// Word is one of the allowed words.
func (p *Params) Word(name string, allowed ...string) string {
	all := p.Words(name, allowed...)
	if len(all) > 1 {
		p.AddError(name, "has %d values where the model %s takes one", len(all), p.s.Model)
	}
	if len(all) == 0 {
		return allowed[0]
	}
	return all[0]
}

// Words are several of the allowed words.
func (p *Params) Words(name string, allowed ...string) []string {
	all := p.texts(name)
	for _, w := range all {
		if !slices.Contains(allowed, w) {
			p.AddError(name, "%q is none of %s", w, strings.Join(allowed, ", "))
		}
	}
	return all
}

// checkUnread reports parameters of the study that its model did not read.
func (s *Study) checkUnread() error {
	for _, p := range s.Params {
		if !p.wasRead && p.yamlPath != "" {
			s.doc.AddProblem(p.yamlPath, "%s: the model %s does not read it", p.Name, s.Model)
		}
	}
	if err := s.doc.Err(); err != nil {
		return fmt.Errorf("after the run: %w", err)
	}
	return nil
}
