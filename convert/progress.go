package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"ringlet/convert/conversion"
	"ringlet/convert/input"
)

const (
	showEvery    = 200 * time.Millisecond
	badShown     = 20 // bad units that are named; the journal of a directory names more, the summary has the count
	manyDropped  = 10 // a warning comes if more than one row in manyDropped is left out
	droppedShown = 64 // sources that are named; the journal of a directory has all
)

// progress shows how far the conversion is: one line on a terminal, nothing elsewhere.
type progress struct {
	to       io.Writer
	terminal bool
	quiet    bool
	began    time.Time
	last     time.Time
	named    int
}

// show updates the line, every showEvery at most.
func (p *progress) show(r conversion.Result) {
	now := time.Now()
	if !p.terminal || now.Sub(p.last) < showEvery {
		return
	}
	p.last = now
	percent := 100.0
	if r.Total > 0 {
		percent = 100 * float64(r.Read) / float64(r.Total)
	}
	fmt.Fprintf(p.to, "\r\033[K%5.1f %% of %.1f MB, %d rows, %.1f MB/s", percent, float64(r.Total)/1e6, r.Rows, p.rate(r))
}

// rate is the speed of this conversion in MB of input a second.
func (p *progress) rate(r conversion.Result) float64 {
	return float64(r.Read-r.Resumed) / 1e6 / max(time.Since(p.began).Seconds(), 1e-3)
}

// clear removes the line.
func (p *progress) clear() {
	if p.terminal && !p.last.IsZero() {
		fmt.Fprint(p.to, "\r\033[K")
	}
}

// bad prints a unit that was left out, up to badShown of them.
func (p *progress) bad(err *input.BadError) {
	p.named++
	switch {
	case p.named <= badShown:
		p.clear()
		fmt.Fprintf(p.to, "ringlet-convert: left out: %v\n", err)
	case p.named == badShown+1:
		p.clear()
		fmt.Fprintln(p.to, "ringlet-convert: more are left out; they are counted, not named")
	}
}

// done prints the summary.
func (p *progress) done(path string, r conversion.Result) {
	if p.quiet {
		return
	}
	fmt.Fprintf(p.to, "%s: %d rows, %d bytes of data; %d missing fragments; %d damaged places; %.1f MB read in %.1f s\n",
		path, r.Rows, r.Bytes, r.Missing, r.Bad, float64(r.Read-r.Resumed)/1e6, time.Since(p.began).Seconds())
	if r.SlowValues > 0 || r.SlowBroken > 0 {
		fmt.Fprintf(p.to, "%d values of slow data; %d lines of them are not whole\n", r.SlowValues, r.SlowBroken)
	}
	p.dropped(r.Dropped, r.Rows)
}

// dropped prints how many fragments --once has left out, by source. Runs of one measurement share few events: if many
// were left out, it also prints the probable cause.
func (p *progress) dropped(of map[uint16]uint64, rows uint64) {
	var all uint64
	var each, more []string
	for _, source := range slices.Sorted(maps.Keys(of)) {
		all += of[source]
		each = append(each, fmt.Sprintf("%d of source %d", of[source], source))
	}
	if all == 0 {
		return
	}
	if len(each) > droppedShown {
		more = []string{fmt.Sprintf("the rest of %d other sources", len(each)-droppedShown)}
		each = each[:droppedShown]
	}
	fmt.Fprintf(p.to, "left out by --once, since an earlier input has them: %d fragments, %s\n", all,
		strings.Join(append(each, more...), ", "))
	if all > rows/manyDropped {
		fmt.Fprintln(p.to, "that is much for runs of one measurement: if each run numbers its events anew, "+
			"convert each alone")
	}
}
