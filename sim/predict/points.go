package predict

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"ringlet/internal/safeopen"
	"ringlet/lab/trial"
	"ringlet/node/config"
)

// Study lists measurements: results of sweeps, each with the cluster that it ran on.
type Study struct {
	Measured []Results `yaml:"measured"`
}

// Results are those of one sweep, with what its lines do not say.
type Results struct {
	Name      string   `yaml:"name"`
	File      string   `yaml:"results"`    // results.csv of ringlet bench sweep
	UsedInFit bool     `yaml:"calibrates"` // costs are fitted to it; else it tests the predictions
	Hosts     Cluster  `yaml:"cluster"`
	Series    []Series `yaml:"series"`

	SuspendEvery time.Duration `yaml:"suspend-every"`
	LargeEvery   int           `yaml:"large-every"`
	LargeFactor  int           `yaml:"large-factor"`
	LargeRU      int           `yaml:"large-ru"`
}

// Series is what no column says about a series of a sweep.
type Series struct {
	Name string `yaml:"name"`
	// Discipline replaces the value of the column discipline, which does not tell variants apart. "": that value.
	Discipline string `yaml:"discipline" enum:"shift,push,tagring,tagring-wait,pull,free,"`
	PullWindow int    `yaml:"pull-window"`
}

// Point is a measured configuration: the median of its runs.
type Point struct {
	Sweep     string
	Name      string
	Rate      float64 // events per second
	File      File
	UsedInFit bool // costs are fitted to it

	Rates   []float64 // of each run, in order
	Started string    // of the first run, as in the results
}

// LoadStudy reads a study file; its paths of results are relative to it.
func LoadStudy(path string) (*Study, error) {
	in, err := safeopen.Open(path)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	return parseStudy(path, in)
}

// WithResults is a study of results that were measured on this file's cluster, for a fit.
func (f *File) WithResults(results []string) *Study {
	s := &Study{}
	for _, name := range results {
		s.Measured = append(s.Measured, Results{
			Name:      name,
			File:      name,
			UsedInFit: true,
			Hosts:     f.Hosts,
		})
	}
	return s
}

// parseStudy reads a study file. If it is invalid, the error is a *config.InvalidError.
func parseStudy(name string, in io.Reader) (*Study, error) {
	s := &Study{}
	d, err := config.Read(name, in, s)
	if err != nil {
		return nil, err
	}
	for i := range s.Measured {
		m := &s.Measured[i]
		at := fmt.Sprintf("measured[%d]", i)
		if m.Name == "" || m.File == "" {
			d.AddProblem(at, "needs a name and results")
		}
		h := &m.Hosts
		if h.Cores == 0 {
			h.Cores = 1
		}
		if h.Hosts != 1 && (h.Port == nil || h.Port.Dimension != "B/s" || h.Port.Value < 1e4) {
			d.AddProblem(at+".cluster", "needs the rate of a host's port, such as 20 Mbit/s, or one host")
		}
	}
	return s, d.Err()
}

// Points reads all results, whose paths are relative to dir.
func (s *Study) Points(dir string) ([]Point, error) {
	var all []Point
	for i := range s.Measured {
		points, err := s.Measured[i].open(dir)
		if err != nil {
			return nil, err
		}
		all = append(all, points...)
	}
	return all, nil
}

func (m *Results) open(dir string) ([]Point, error) {
	path := m.File
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	in, err := safeopen.Open(path)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	points, err := m.points(in)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return points, nil
}

// points reads the lines of one results.csv. Runs of one configuration are one point.
func (m *Results) points(in io.Reader) ([]Point, error) {
	r := csv.NewReader(in)
	head, err := r.Read()
	if err != nil {
		return nil, fmt.Errorf("no results: %w", err)
	}
	var all []*Point
	for {
		cells, err := r.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		row := line{cells: map[string]string{}}
		for i, name := range head {
			row.cells[name] = cells[i]
		}
		if row.cells["exit_code"] != "0" || row.cells["error"] != "" {
			continue // a failed run has no figures
		}
		p, rate := m.point(&row)
		if row.err != nil {
			at, _ := r.FieldPos(0)
			return nil, fmt.Errorf("line %d: %w", at, row.err)
		}
		i := slices.IndexFunc(all, func(q *Point) bool { return q.Name == p.Name })
		if i < 0 {
			i = len(all)
			all = append(all, p)
		}
		all[i].Rates = append(all[i].Rates, rate)
	}
	slices.SortFunc(all, func(a, b *Point) int {
		return cmp.Or(cmp.Compare(a.File.Setup.Nodes, b.File.Setup.Nodes), strings.Compare(a.Name, b.Name))
	})
	var points []Point
	for _, p := range all {
		p.Rate = trial.SpreadOf(p.Rates).Median
		points = append(points, *p)
	}
	return points, nil
}

// line is a line of results.csv.
type line struct {
	cells map[string]string
	err   error
}

func (l *line) number(name string) float64 {
	v, err := strconv.ParseFloat(l.cells[name], 64)
	if (err != nil || math.IsNaN(v) || v < 0 || v > 1e15) && l.err == nil {
		l.err = fmt.Errorf("%s is %q: is this results.csv of ringlet bench sweep?", name, l.cells[name])
	}
	return v
}

func (l *line) integer(name string, most int) int {
	v := l.number(name)
	if l.err == nil && (v != math.Trunc(v) || v > float64(most)) {
		l.err = fmt.Errorf("%s is %v, no whole number up to %d", name, v, most)
	}
	if l.err != nil {
		return 1
	}
	return int(v)
}

// point returns the configuration of a run, and its rate.
func (m *Results) point(l *line) (p *Point, rate float64) {
	rate = l.number("event_rate_hz")
	if l.err == nil && rate == 0 {
		l.err = fmt.Errorf("event_rate_hz is 0: a run that built nothing cannot be predicted")
	}
	c := defaults()
	l.readUnits(&c)
	l.readFragments(&c)
	l.readOrder(&c)
	if l.cells["offered_gbps"] != "" {
		c.Rate = l.number("offered_gbps") / l.number("built_gbps") * rate // both count the same bits of an event
	}
	m.readDisturbances(l, &c)
	for _, s := range m.Series {
		if s.Name == l.cells["series"] {
			c.PullWindow = s.PullWindow
			if s.Discipline != "" {
				c.Discipline = s.Discipline
			}
		}
	}
	if c.discipline() == nil && l.err == nil {
		l.err = fmt.Errorf("discipline %q is not known", c.Discipline)
	}
	if l.err == nil && (c.RUs < 1 || c.BUs < 1 || c.Packing < 1 || c.Streams < 1 || c.Slots < 1) {
		l.err = fmt.Errorf("readout units %d, builder units %d, packing %d, sources %d, slots %d: each must be 1 or more",
			c.RUs, c.BUs, c.Packing, c.Streams, c.Slots)
	}
	c.complete()
	p = &Point{
		Sweep:     m.Name,
		Name:      m.name(&c),
		UsedInFit: m.UsedInFit,
		Started:   l.cells["started"],
		File:      File{Hosts: m.Hosts, Setup: c, Seed: 1},
	}
	if m.Hosts.Hosts == 0 {
		p.File.Hosts.Hosts = l.integer("hosts", MostNodes)
	}
	return p, rate
}

// readUnits reads the numbers of units, and what each unit had.
func (l *line) readUnits(c *Setup) {
	c.RUs, c.BUs = l.integer("n_ru", MostNodes), l.integer("n_bu", MostNodes)
	c.Nodes = l.integer("nodes", MostNodes)
	c.Streams, c.Slots = l.integer("streams", 1024), l.integer("slots", 4096)
	c.LookAhead = l.integer("credits", 4096)
	c.Packing = l.integer("packing", math.MaxUint16)
}

// readFragments reads the sizes of fragments.
func (l *line) readFragments(c *Setup) {
	mean, sigma := l.number("fragment_mean_b"), l.number("fragment_sigma_b")
	c.FragmentSize = int(math.Round(mean))
	switch {
	case sigma == 0:
		c.Model = "constant"
	case math.Abs(sigma*sigma-mean) < 0.05*mean:
		c.Model = "poisson"
	}
}

// readOrder reads the discipline and the carrier. Results of former versions have former names.
func (l *line) readOrder(c *Setup) {
	c.Discipline, c.PhaseEnd = l.cells["discipline"], l.cells["barrier"]
	c.Transport = l.cells["transport"]
	switch old := l.cells["started"] < quicRenamedOn; {
	case c.Transport == formerQUICName:
		c.Transport = "quic"
	case c.Transport == "quic" && old:
		c.Transport = "quic-go"
	}
	if l.cells["bypass"] == "off" {
		c.Discipline = "tagring-wait"
	}
}

// readDisturbances reads the disturbances: suspensions, and large events.
func (m *Results) readDisturbances(l *line, c *Setup) {
	c.SuspendEvery, c.LargeEvery, c.LargeFactor, c.LargeRU = m.SuspendEvery, m.LargeEvery, m.LargeFactor, m.LargeRU
	if text := l.cells["debug.suspend-for"]; text != "" {
		d, err := time.ParseDuration(text)
		if err != nil && l.err == nil {
			l.err = err
		}
		c.SuspendFor, c.Duration = d, time.Duration(l.number("duration_s")*float64(time.Second))
	}
}

// formerQUICName is the old name of the transport quic, in results from before it was renamed; quic was then the name
// of today's quic-go.
const (
	formerQUICName = "express"
	quicRenamedOn  = "2026-11-22"
)

// name tells a configuration from the others of its sweep.
func (m *Results) name(c *Setup) string {
	name := fmt.Sprintf("%d nodes, ", c.Nodes)
	if c.RUs != c.Nodes || c.BUs != c.Nodes {
		name = fmt.Sprintf("%d readout units, %d builder units, ", c.RUs, c.BUs)
	}
	name += c.Discipline
	if c.discipline() != nil && c.discipline().Phases {
		name += " + " + c.PhaseEnd
	}
	if c.discipline() != nil && c.discipline().Pull {
		name += fmt.Sprintf(" %d at a time", c.PullWindow)
	}
	if c.SuspendFor > 0 {
		name += fmt.Sprintf(", %d slots, suspended for %v", c.Slots, c.SuspendFor)
	}
	if c.Transport != "quic" {
		name += ", " + c.Transport
	}
	return name + fmt.Sprintf(", %d × %d × %d B", c.Streams, c.Packing, c.FragmentSize)
}
