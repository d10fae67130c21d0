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
	"ringlet/filter"
	"ringlet/filter/external"
	"ringlet/internal/decimal"
	"ringlet/internal/registry"
	"ringlet/velo/vertex"
)

// Kinds is the table of filters.
var Kinds = []filter.Kind{
	vertex.Kind,
	{
		Kind:        registry.Kind{Name: "process", Help: "process:NAME asks programs of yours, docs/your-filter.md"},
		ByProcesses: true,
		Open:        checkProcess,
	},
	{Kind: registry.Kind{Name: "share", Help: "share:0.04 accepts 0.04 of the events, by number"},
		Open: openAcceptShare},
}

// defaultDeadline is how long a filter may take for an event where nobody says otherwise: 50 times what the documents
// expected (2 ms), since a process that shares its processors may be put aside for tens of milliseconds.
const defaultDeadline = 100 * time.Millisecond

// Choice is a filter that was chosen.
type Choice struct {
	row      filter.Kind
	argument string
	Deadline time.Duration // for one event
	FileSum  string        // SHA-256 of File in hexadecimal, as the run control read it; empty: nobody has yet
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
	c.argument, c.Deadline = value, defaultDeadline
	if limited {
		if c.Deadline, err = time.ParseDuration(limit); err != nil || c.Deadline < time.Millisecond ||
			c.Deadline > time.Minute {
			return c, fmt.Errorf("%q is no deadline for a filter: give a time from 1ms to 1m, as in %s,50ms", limit,
				cmp.Or(what, name))
		}
	}
	if c.FileSum = sum; summed && (!sha256Sum.MatchString(sum) || c.DetectorFile() == "") {
		return c, fmt.Errorf("%q is no checksum of a detector's file: leave out what stands behind the deadline", sum)
	}
	if colon := len(what) > len(name); colon && value == "" && c.NeedsDetector() {
		return c, fmt.Errorf("no file stands behind the colon of %s: give the file that describes the detector, as in "+
			"%s:mine.yaml, or leave out the colon", what, name)
	}
	_, err = c.OpenFilters(0, nil)
	return c, err
}

// sumMark stands before the checksum, which a configuration has once its run control has read the file.
const sumMark = "sha256="

var sha256Sum = regexp.MustCompile(`^[0-9a-f]{64}$`)

// NeedsDetector says that it judges fragments of a vertex detector: of the default geometry, or that of File.
func (c Choice) NeedsDetector() bool { return c.row.NewDescription != nil }

// NewDescription is what its file describes, before the file is read.
func (c Choice) NewDescription() filter.Description { return c.row.NewDescription() }

// DetectorFile is the file that describes its detector; empty: there is none.
func (c Choice) DetectorFile() string {
	if !c.NeedsDetector() {
		return ""
	}
	return c.argument
}

// WithFile is the text of the filter with another file of that checksum. Parse reads it.
func (c Choice) WithFile(file, sum string) string {
	return fmt.Sprintf("%s:%s,%s,%s%s", c.row.Name, file, c.Deadline, sumMark, sum)
}

// ProcessName is the name under which processes of others judge; empty: goroutines do, which Open makes.
func (c Choice) ProcessName() string {
	if !c.row.ByProcesses {
		return ""
	}
	return c.argument
}

// workersReserved is how many filter processes memory is asked for beforehand; further ones take what there is.
const workersReserved = 2

// SharedMemory is what it takes of /dev/shm for a builder unit, bytes, where a MEP has that many at most.
func (c Choice) SharedMemory(mostMEP int64) int64 {
	if !c.row.ByProcesses {
		return 0
	}
	return workersReserved * int64(external.WorkerMemory(int(mostMEP)))
}

// OpenFilters makes n filters, one for each goroutine that judges. d is what DetectorFile describes; nil stands for the
// default one, and for a filter that has none. The error says why what is described cannot be judged.
func (c Choice) OpenFilters(n int, d filter.Description) ([]filter.Filter, error) {
	return c.row.Open(c.argument, d, n)
}

// processName is what a filter may be called: it is a part of names of files.
var processName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

func checkProcess(value string, _ filter.Description, _ int) ([]filter.Filter, error) {
	if !processName.MatchString(value) {
		return nil, fmt.Errorf("%q is no name for filter processes: give 1 to 64 letters, digits, dots, dashes and "+
			"underscores, as in process:mine", value)
	}
	return nil, nil
}

// errBadShare says what a share is.
var errBadShare = errors.New("the filter share needs the share of events that it accepts, 0 to 1, as in share:0.04")

// acceptShare accepts events by their number, whatever they hold. A share of x accepts the events whose number, spread
// over 32 bits, is below x.
type acceptShare uint64

func openAcceptShare(value string, _ filter.Description, n int) (list []filter.Filter, err error) {
	x, err := decimal.Float(value)
	if err != nil || !(x >= 0 && x <= 1) {
		return nil, errBadShare
	}
	for range n {
		list = append(list, acceptShare(math.Round(x*(1<<32))))
	}
	return list, nil
}

// Judge looks at the number alone.
func (s acceptShare) Judge(_ time.Time, e *selection.Event) (filter.Verdict, error) {
	v := filter.Verdict{Decision: filter.Rejected}
	if e.Number*0x9e3779b97f4a7c15>>32 < uint64(s) { // Fibonacci hashing: neighbours are far apart
		v.Decision = filter.Accepted
	}
	return v, nil
}
