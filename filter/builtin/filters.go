package builtin

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"
	"time"

	"ringlet/event/selection"
	"ringlet/event/velo"
	"ringlet/filter"
	"ringlet/filter/external"
	"ringlet/filter/vertex"
	"ringlet/internal/decimal"
	"ringlet/internal/registry"
)

// Row is a kind of filter.
type Row struct {
	registry.Kind
	detector bool // it judges fragments of a vertex detector, which a file behind the colon may describe
	process  bool // processes of others judge, of the name that stands behind the colon
	// open makes filters. value is what stands behind the name and a colon; g is the detector that its file describes, nil
	// for the default one.
	open func(value string, g *velo.Geometry, n int) ([]filter.Filter, error)
}

// Kinds is the table of filters.
var Kinds = []Row{
	{
		Kind: registry.Kind{Name: "vertex", Help: "accepts events of a vertex detector in which a particle decayed; " +
			"vertex:FILE one that a file describes, docs/vertex-detector.md"},
		detector: true,
		open:     openVertex,
	},
	{
		Kind:    registry.Kind{Name: "process", Help: "process:NAME asks programs of yours, docs/your-filter.md"},
		process: true,
		open:    checkProcess,
	},
	{Kind: registry.Kind{Name: "share", Help: "share:0.04 accepts 0.04 of the events, by number"}, open: openShare},
}

// defaultDeadline is how long a filter may take for an event where nobody says otherwise: 50 times what the documents
// expected (2 ms), since a process that shares its processors may be put aside for tens of milliseconds.
const defaultDeadline = 100 * time.Millisecond

// Choice is a filter that was chosen.
type Choice struct {
	row      Row
	value    string
	Deadline time.Duration // for one event
	Sum      string        // SHA-256 of File in hexadecimal, as the run control read it; empty: nobody has yet
}

// Parse reads the name of a filter, what it is told behind a colon, and its deadline behind a comma:
// share:0.04,50ms. It reads no file.
func Parse(text string) (c Choice, err error) {
	what, limit, limited := strings.Cut(text, ",")
	limit, sum, summed := strings.Cut(limit, ","+sumMark)
	name, value, _ := strings.Cut(what, ":")
	if c.row, err = registry.Find("filter", Kinds, name); err != nil {
		return c, err
	}
	c.value, c.Deadline = value, defaultDeadline
	if limited {
		if c.Deadline, err = time.ParseDuration(limit); err != nil || c.Deadline < time.Millisecond ||
			c.Deadline > time.Minute {
			return c, fmt.Errorf("%q is no deadline for a filter: give a time from 1ms to 1m, as in %s,50ms", limit,
				cmp.Or(what, name))
		}
	}
	if c.Sum = sum; summed && (!sha256Sum.MatchString(sum) || c.File() == "") {
		return c, fmt.Errorf("%q is no checksum of a detector's file: leave out what stands behind the deadline", sum)
	}
	if colon := len(what) > len(name); colon && value == "" && c.row.detector {
		return c, fmt.Errorf("no file stands behind the colon of %s: give the file that describes the detector, as in "+
			"%s:mine.yaml, or leave out the colon", what, name)
	}
	_, err = c.Open(0, nil)
	return c, err
}

// sumMark stands before the checksum, which a configuration has once its run control has read the file.
const sumMark = "sha256="

var sha256Sum = regexp.MustCompile(`^[0-9a-f]{64}$`)

// Detector says that it judges fragments of a vertex detector: of the default geometry, or that of File.
func (c Choice) Detector() bool { return c.row.detector }

// File is the file that describes its detector; empty: there is none.
func (c Choice) File() string {
	if !c.row.detector {
		return ""
	}
	return c.value
}

// WithFile is the text of the filter with another file of that checksum. Parse reads it.
func (c Choice) WithFile(file, sum string) string {
	return fmt.Sprintf("%s:%s,%s,%s%s", c.row.Name, file, c.Deadline, sumMark, sum)
}

// Process is the name under which processes of others judge; empty: goroutines do, which Open makes.
func (c Choice) Process() string {
	if !c.row.process {
		return ""
	}
	return c.value
}

// workersCounted is how many filter processes memory is asked for beforehand; further ones take what there is.
const workersCounted = 2

// Memory is what it takes of /dev/shm for a builder unit, bytes, where a MEP has that many at most.
func (c Choice) Memory(mostMEP int64) int64 {
	if !c.row.process {
		return 0
	}
	return workersCounted * int64(external.Memory(int(mostMEP)))
}

// Open makes n filters, one for each goroutine that judges. g is the detector that File describes; nil stands for the
// default one, and for a filter that judges no detector. A *vertex.GeometryError says why a detector cannot be
// searched.
func (c Choice) Open(n int, g *velo.Geometry) ([]filter.Filter, error) {
	return c.row.open(c.value, g, n)
}

func openVertex(_ string, g *velo.Geometry, n int) (list []filter.Filter, err error) {
	if g == nil {
		if g, err = velo.New(velo.Default()); err != nil {
			return nil, err
		}
	}
	d, err := vertex.NewDetector(g)
	if err != nil {
		return nil, err
	}
	for range n {
		list = append(list, vertex.NewFilter(d))
	}
	return list, nil
}

// processName is what a filter may be called: it is a part of names of files.
var processName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

func checkProcess(value string, _ *velo.Geometry, _ int) ([]filter.Filter, error) {
	if !processName.MatchString(value) {
		return nil, fmt.Errorf("%q is no name for filter processes: give 1 to 64 letters, digits, dots, dashes and "+
			"underscores, as in process:mine", value)
	}
	return nil, nil
}

// errShare says what a share is.
var errShare = errors.New("the filter share needs the share of events that it accepts, 0 to 1, as in share:0.04")

// share accepts events by their number, whatever they hold. A share of x accepts the events whose number, spread over
// 32 bits, is below x.
type share uint64

func openShare(value string, _ *velo.Geometry, n int) (list []filter.Filter, err error) {
	x, err := decimal.Float(value)
	if err != nil || !(x >= 0 && x <= 1) {
		return nil, errShare
	}
	for range n {
		list = append(list, share(math.Round(x*(1<<32))))
	}
	return list, nil
}

// Judge looks at the number alone.
func (s share) Judge(_ time.Time, e *selection.Event) (filter.Verdict, error) {
	v := filter.Verdict{Decision: filter.Rejected}
	if e.Number*0x9e3779b97f4a7c15>>32 < uint64(s) { // Fibonacci hashing: neighbours are far apart
		v.Decision = filter.Accepted
	}
	return v, nil
}
