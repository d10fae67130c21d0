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

// defaultDeadline is how long a filter may take for an event if the text gives no deadline: 50 times what the
// documents expected (2 ms), since the kernel may stop a process that shares its processors for tens of milliseconds.
const defaultDeadline = 100 * time.Millisecond

// Choice is a filter that was chosen.
type Choice struct {
	row      filter.Kind
	argument string
	Deadline time.Duration // for one event
	FileSum  string        // SHA-256 of DetectorFile in hexadecimal, by the run control; empty: not read yet
}

// Parse parses the name of a filter, its argument after a colon, and its deadline after a comma: share:0.04,50ms. It
// reads no file.
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
		return c, fmt.Errorf("%q is no checksum of a detector's file: leave out the text after the deadline", sum)
	}
	if colon := len(what) > len(name); colon && value == "" && c.NeedsDetector() {
		return c, fmt.Errorf("no file follows the colon of %s: give the file that describes the detector, as in "+
			"%s:mine.yaml, or leave out the colon", what, name)
	}
	_, err = c.OpenFilters(0, nil)
	return c, err
}

// sumMark precedes the checksum, which a configuration has once its run control has read the file.
const sumMark = "sha256="

var sha256Sum = regexp.MustCompile(`^[0-9a-f]{64}$`)

// NeedsDetector says that it judges fragments of a vertex detector: of the default geometry, or that of DetectorFile.
func (c Choice) NeedsDetector() bool { return c.row.NewDescription != nil }

// NewDescription returns the Description for its file, before the file is read.
func (c Choice) NewDescription() filter.Description { return c.row.NewDescription() }

// DetectorFile returns the file that describes its detector; empty: there is none.
func (c Choice) DetectorFile() string {
	if !c.NeedsDetector() {
		return ""
	}
	return c.argument
}

// WithFile returns the text of the filter with another file, which has that checksum. Parse reads the text.
func (c Choice) WithFile(file, sum string) string {
	return fmt.Sprintf("%s:%s,%s,%s%s", c.row.Name, file, c.Deadline, sumMark, sum)
}

// ProcessName returns the name under which processes of users judge; empty: goroutines of OpenFilters judge.
func (c Choice) ProcessName() string {
	if !c.row.ByProcesses {
		return ""
	}
	return c.argument
}

// workersReserved is for how many filter processes memory is reserved; further ones take what is free.
const workersReserved = 2

// SharedMemory returns how many bytes of /dev/shm it takes for a builder unit whose MEPs have at most mostMEP bytes.
func (c Choice) SharedMemory(mostMEP int64) int64 {
	if !c.row.ByProcesses {
		return 0
	}
	return workersReserved * int64(external.WorkerMemory(int(mostMEP)))
}

// OpenFilters makes n filters, one for each goroutine that judges. d is the Description read from DetectorFile; nil:
// the default one, or the filter has none. The error says why the described data cannot be judged.
func (c Choice) OpenFilters(n int, d filter.Description) ([]filter.Filter, error) {
	return c.row.Open(c.argument, d, n)
}

// processName is the valid names of filters: they are parts of file names.
var processName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

func checkProcess(value string, _ filter.Description, _ int) ([]filter.Filter, error) {
	if !processName.MatchString(value) {
		return nil, fmt.Errorf("%q is no name for filter processes: give 1 to 64 letters, digits, dots, dashes and "+
			"underscores, as in process:mine", value)
	}
	return nil, nil
}

var errBadShare = errors.New("the filter share needs the share of events that it accepts, 0 to 1, as in share:0.04")

// acceptShare accepts events by their number alone: a share of x accepts the events whose number, hashed to 32 bits,
// is below x · 2³².
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

// Judge uses only the number of the event.
func (s acceptShare) Judge(_ time.Time, e *selection.Event) (filter.Verdict, error) {
	v := filter.Verdict{Decision: filter.Rejected}
	if e.Number*0x9e3779b97f4a7c15>>32 < uint64(s) { // Fibonacci hashing: neighbours are far apart
		v.Decision = filter.Accepted
	}
	return v, nil
}
