package sweep

import (
	"cmp"
	"errors"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"ringlet/internal/decimal"
	"ringlet/lab/trial"
	"ringlet/node/config"
)

// Beds of runs. Without a bed a run is `ringlet run`: processes of this machine on its loopback interface.
const (
	Testbed = "testbed" // ringlet testbed run
	Control = "control" // ringlet control, with nodes that are running
)

// keyLoad is not a setting of a run: it is the offered share of a port's rate, from which the rate of events follows.
const keyLoad = "load"

// Value is one setting as the file has it.
type Value struct {
	Key  string `json:"key"`
	Text string `json:"text"`
}

// Bed is the place of a run.
type Bed struct {
	Kind  string  // "", Testbed or Control
	Flags []Value // of the command that makes the bed
}

// Cell is one combination of settings, which is run repeatedly.
type Cell struct {
	Series     string
	Says       string  // the file's description of the series
	ID         string  // series and varied values; no two cells have the same
	Varied     []Value // in the order of the file
	Fixed      []Value
	Bed        Bed
	BedSummary BedSummary
	PortLoad   float64 // offered share of a port's rate; 0 = not given
	Config     config.Completed
	Args       []string // the program's command line
}

// findValue returns the text of a setting in the lists.
func findValue(key string, lists ...[]Value) (string, bool) {
	for _, v := range slices.Concat(lists...) {
		if v.Key == key {
			return v.Text, true
		}
	}
	return "", false
}

// expand makes the cells of all series.
func (r *reader) expand(s *Sweep, blocks []seriesBlock) {
	for i := range blocks {
		b := &blocks[i]
		if b.name == "" {
			b.name = s.Name
		}
		for _, f := range b.fixed {
			for _, v := range b.vary {
				if f.key == v.key {
					r.add(v.line, v.key, "is varied here and fixed on line %d: give one of the two", f.line)
				}
			}
		}
		r.expandSeries(s, b, nil)
		if r.err() != nil {
			return
		}
	}
}

// expandSeries completes the combinations of a series that begin with the chosen values.
func (r *reader) expandSeries(s *Sweep, b *seriesBlock, chosen []fileSetting) {
	if len(chosen) < len(b.vary) {
		v := b.vary[len(chosen)]
		for _, one := range v.value.Content {
			if r.err() != nil {
				return // one message is enough: all others would be about the same mistake
			}
			r.expandSeries(s, b, append(slices.Clip(chosen), fileSetting{v.key, one.Line, one}))
		}
		return
	}
	if len(s.Cells) == maxCells {
		r.add(b.line, b.name, "comes to more than %d combinations: lists multiply", maxCells)
		return
	}
	c, ok := r.cell(b, chosen)
	if !ok {
		return
	}
	if r.seenCells[c.ID] {
		r.add(b.line, b.name, "has the combination %q twice", c.ID)
		return
	}
	r.seenCells[c.ID] = true
	s.Cells = append(s.Cells, c)
}

// cell completes one combination, and has the program check its command line.
func (r *reader) cell(b *seriesBlock, chosen []fileSetting) (Cell, bool) {
	c := Cell{Series: b.name, Says: b.says, Bed: Bed{Kind: b.bedKind}}
	base := config.Default()
	var keys []string
	lines := map[string]int{}
	for i, l := range slices.Concat(b.flags, b.fixed, chosen) {
		if i < len(b.flags) {
			lines[b.bedKind+"."+l.key] = l.line // the name of a flag that is varied or fixed
		} else {
			lines[l.key] = l.line
		}
		v := Value{l.key, l.value.Value}
		name, isBedFlag := strings.CutPrefix(l.key, b.bedKind+".")
		switch {
		case i < len(b.flags):
			c.Bed.Flags = append(c.Bed.Flags, r.bedFlag(l, l.key)...)
			continue
		case b.bedKind != "" && isBedFlag:
			c.Bed.Flags = append(slices.DeleteFunc(c.Bed.Flags, func(f Value) bool { return f.Key == name }),
				r.bedFlag(l, name)...)
		case l.key == "json":
			r.add(l.line, l.key, "is not for a sweep to give: a sweep sets it to read the reports of its runs")
		case l.key == keyLoad:
			c.PortLoad = r.parseLoad(l)
		default:
			r.addProblems(base.Set(r.file, l.line, l.key, l.value))
			if s, ok := base.Setting(l.key); ok {
				v.Text, keys = s.FlagValue, append(keys, l.key)
			}
		}
		if i >= len(b.flags)+len(b.fixed) {
			c.Varied = append(c.Varied, v)
		} else {
			c.Fixed = append(c.Fixed, v)
		}
	}
	if r.err() != nil {
		return c, false
	}
	c.ID = c.Series
	for _, v := range c.Varied {
		c.ID += " " + v.Key + "=" + v.Text
	}
	return c, r.completeCell(&c, b, base, keys, lines)
}

// completeCell completes the configuration and the command line, and has the program check the latter.
func (r *reader) completeCell(c *Cell, b *seriesBlock, base config.Config, keys []string, lines map[string]int) bool {
	if !r.composeConfig(c, b, base, lines) || !r.checkCommandLine(c, b, base, keys, lines) {
		return false
	}
	if c.PortLoad == 0 {
		return true
	}
	switch {
	case slices.Contains(keys, "rate"):
		r.add(lines["rate"], "rate", "is given beside load, which also sets the rate: leave out one of the two")
	case c.BedSummary.PortBps == 0:
		r.add(lines[keyLoad], keyLoad, "is a share of a port's rate, and none is known: give port-rate, or a testbed")
	case c.Config.Input != "":
		r.add(lines[keyLoad], keyLoad, "needs the size of events, which an input has for itself: give rate")
	}
	if r.err() != nil {
		return false
	}
	if base.Rate = math.Round(c.PortLoad * c.BedSummary.PortBps / portBitsPerEvent(c)); base.Rate == 0 {
		r.add(lines[keyLoad], keyLoad, "%g of a port is less than one event per second (the run %q)", c.PortLoad, c.ID)
		return false
	}
	return r.composeConfig(c, b, base, lines) && r.checkCommandLine(c, b, base, append(keys, "rate"), lines)
}

// checkCommandLine has the program check the cell's command line.
func (r *reader) checkCommandLine(c *Cell, b *seriesBlock, base config.Config, keys []string,
	lines map[string]int) bool {
	namesHosts := func(f Value) bool { return f.Key == "hosts" || f.Key == "bed" || f.Key == "name" }
	if c.Bed.Kind == Testbed && !slices.ContainsFunc(c.Bed.Flags, namesHosts) {
		c.Bed.Flags = append(c.Bed.Flags, Value{"hosts", strconv.Itoa(c.Config.Nodes)}) // one port for each
	}
	c.Args = commandLine(c, base, keys)
	if r.check != nil {
		ground, err := r.check(c.Args)
		if err != nil {
			line, key := locateProblem(err, b, lines)
			r.add(line, key, "%v (the command line is %s)", err, strings.Join(c.Args, " "))
			return false
		}
		c.BedSummary = ground
	}
	c.BedSummary.PortBps = cmp.Or(b.portBps, c.BedSummary.PortBps)
	return true
}

// locateProblem finds the line of the setting that an error is about: the first flag that the error names, as in
// "--rate=RATE: …" or "rate: …". If a setting has the name of a flag of the bed, the flag is meant: settings were
// checked before.
func locateProblem(err error, b *seriesBlock, lines map[string]int) (line int, key string) {
	line, key = b.line, b.name
	text, first := err.Error(), math.MaxInt
	for _, k := range slices.Sorted(maps.Keys(lines)) {
		flag, isBedFlag := strings.CutPrefix(k, b.bedKind+".")
		flag = strings.ReplaceAll(flag, ".", "-")
		at := regexp.MustCompile(`(?:^|--)` + regexp.QuoteMeta(flag) + `(?:[^\w-]|$)`).FindStringIndex(text)
		if at != nil && (at[0] < first || at[0] == first && isBedFlag) {
			first, line, key = at[0], lines[k], k
		}
	}
	return line, key
}

// composeConfig completes the cell's configuration, and reports problems with their lines in the file.
func (r *reader) composeConfig(c *Cell, b *seriesBlock, base config.Config, lines map[string]int) (ok bool) {
	var err error
	c.Config, err = base.Compose("", nil, nil)
	var invalid *config.InvalidError
	switch {
	case err == nil:
		return true
	case !errors.As(err, &invalid):
		r.add(b.line, b.name, "%v", err)
		return false
	}
	for _, p := range invalid.Problems {
		line := b.line
		if at := lines[p.Key]; at > 0 {
			line = at
		}
		r.add(line, p.Key, "%s (the run %q)", p.Reason, c.ID)
	}
	return false
}

// commandLine is the command line that a user would type.
func commandLine(c *Cell, base config.Config, keys []string) []string {
	args := []string{"run"}
	switch c.Bed.Kind {
	case Testbed:
		args = []string{"testbed", "run"}
	case Control:
		args = []string{"control", "--once"}
	}
	for _, f := range c.Bed.Flags {
		args = append(args, "--"+f.Key+"="+f.Text)
	}
	if c.Bed.Kind == Testbed {
		args = append(args, "--")
	}
	args = append(args, "--json")
	for _, key := range keys {
		if s, ok := base.Setting(key); ok {
			text := s.FlagValue
			if f, isFloat := s.Value.(float64); isFloat {
				text = strconv.FormatFloat(f, 'f', -1, 64)
			}
			args = append(args, "--"+s.Flag+"="+text)
		}
	}
	return args
}

// bedFlag reads a flag of the bed: a value, or a list for a flag that may be repeated.
func (r *reader) bedFlag(l fileSetting, name string) []Value {
	switch l.value.Kind {
	case yaml.ScalarNode:
		return []Value{{name, l.value.Value}}
	case yaml.SequenceNode:
		var out []Value
		for _, one := range l.value.Content {
			if one.Kind != yaml.ScalarNode {
				r.add(one.Line, l.key, "expected a single value")
				return nil
			}
			out = append(out, Value{name, one.Value})
		}
		return out
	}
	r.add(l.line, l.key, "expected a value or a list of them")
	return nil
}

func (r *reader) parseLoad(l fileSetting) float64 {
	v, err := decimal.Float(l.value.Value)
	if l.value.Kind != yaml.ScalarNode || err != nil || !(v > 0 && v <= 100) {
		r.add(l.line, l.key, "%q is not a share of a port's rate, above 0: 0.8 is 80 %%", l.value.Value)
		return 0
	}
	return v
}

func (r *reader) addProblems(err error) {
	var invalid *config.InvalidError
	if errors.As(err, &invalid) {
		r.problems = append(r.problems, invalid.Problems...)
	}
}

// Turn is one run of a cell, or one measurement of a reference that the file names.
type Turn struct {
	Cell      *Cell // nil for a reference
	Reference string
	Round     int // from 1
}

// order lists the turns of a sweep.
func (s *Sweep) order(rounds int) []Turn {
	var out []Turn
	for _, t := range trial.DrawOrder(len(s.Cells)+len(s.References), rounds, s.Seed, nil) {
		turn := Turn{Round: t.Round + 1}
		if t.Thing < len(s.Cells) {
			turn.Cell = &s.Cells[t.Thing]
		} else {
			turn.Reference = s.References[t.Thing-len(s.Cells)]
		}
		out = append(out, turn)
	}
	return out
}

// name is the name of the cell or reference.
func (t *Turn) name() string {
	if t.Cell == nil {
		return t.Reference
	}
	return t.Cell.ID
}

// duration is the time of a turn without overhead.
func (t *Turn) duration() time.Duration {
	if t.Cell == nil {
		return time.Second
	}
	return t.Cell.Config.Duration
}
