package recording

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"ringlet/internal/plural"
)

// WriteTo prints the result as sentences, a paragraph for each run.
func (v *Verification) WriteTo(w io.Writer) (int64, error) {
	var b strings.Builder
	for i := range v.Runs {
		v.Runs[i].print(&b)
	}
	n, err := io.WriteString(w, b.String())
	return int64(n), err
}

func (r *RunVerification) print(b *strings.Builder) {
	segments, files := 0, "no segments"
	for i := range r.Builders {
		segments += len(r.Builders[i].Segments)
	}
	switch {
	case r.Contents.Merged != nil:
		files = "one file in event order"
	case segments > 0:
		files = fmt.Sprintf("%s of %s", formatCount(segments, "segment"), formatCount(len(r.Builders), "builder unit"))
	}
	path := r.Dir
	if r.Contents.Merged != nil {
		path = filepath.Join(r.Dir, r.Contents.Merged.Name)
	}
	fmt.Fprintf(b, "%s: run %d: %s in %d MEPs, in %s; %s\n", path, r.Run, formatEvents(r.EventsFound), r.MEPs, files,
		r.describeDepth())
	for p := range r.AllProblems {
		fmt.Fprintf(b, "  %v\n", p)
	}
	if more := r.moreProblems(); more > 0 {
		fmt.Fprintf(b, "  and %d more problems\n", more)
	}
	if r.Superseded > 0 {
		c := r.Copies[0]
		fmt.Fprintf(b, "  %d MEPs are there as copies of another attempt, and are counted once; the first is MEP %d in %s\n",
			r.Superseded, c.MEP, c.Segment)
	}
	fmt.Fprintf(b, "  %s\n", r.describeAccounts())
	if r.UnnamedMissingEvents.EventCount > 0 {
		fmt.Fprintf(b, "  lost: %s that the verdict says are here and that no sound file has%s\n",
			formatEvents(r.UnnamedMissingEvents.EventCount), r.UnnamedMissingEvents.describeRanges())
	}
	if r.MissingFragments > 0 {
		fmt.Fprintf(b, "  %d fragments are missing in events that are here, as the verdict says\n", r.MissingFragments)
	}
	if r.EventsNeverTriggered > 0 {
		fmt.Fprintf(b, "  %s are here that the verdict says were never triggered\n", formatEvents(r.EventsNeverTriggered))
	}
	if r.EventsFoundSince > 0 {
		fmt.Fprintf(b, "  %s more are here than the verdict says: they were recovered after it was written\n",
			formatEvents(r.EventsFoundSince))
	}
	if r.SlowData != nil {
		fmt.Fprintf(b, "  %v\n", r.SlowData)
	}
}

// describeDepth says how much of the data was read.
func (r *RunVerification) describeDepth() string {
	switch {
	case !r.DataRead:
		return fmt.Sprintf("by indexes and last MEPs alone, of %d bytes of data", r.BytesFound)
	case r.ContentCompared:
		return fmt.Sprintf("%d bytes of data read and compared with their origin", r.BytesFound)
	}
	return fmt.Sprintf("%d bytes of data read", r.BytesFound)
}

func (r *RunVerification) moreProblems() (n uint64) {
	for _, list := range r.problemLists() {
		n += list.More
	}
	return n
}

// describeAccounts says whether the accounts close.
func (r *RunVerification) describeAccounts() string {
	if !r.Concluded {
		return "accounts do not close: the run has no verdict, so nothing says how many events were built: " +
			"it goes on, or its control was killed"
	}
	sum := fmt.Sprintf("%d triggered = %d here + %d named as missing or elsewhere", r.EventsTriggered, r.EventsClaimed,
		r.NamedMissingEvents)
	if r.IsGood {
		return fmt.Sprintf("accounts close: %s; the verdict is %s", sum, r.describeVerdict())
	}
	if r.UnnamedMissingEvents.EventCount == 0 && r.EventsNeverTriggered == 0 {
		return fmt.Sprintf("every event of the verdict %s is here, but not all files are as they should be: %s", r.Verdict,
			sum)
	}
	return fmt.Sprintf("accounts do not close: the verdict %s says %s; %d are here", r.Verdict, sum, r.EventsFound)
}

// describeVerdict returns the verdict with its reason.
func (r *RunVerification) describeVerdict() string {
	if r.Why != "" {
		return r.Verdict + ": " + r.Why
	}
	return r.Verdict
}

// describeRanges lists the ranges; empty if there are none.
func (g *Gaps) describeRanges() string {
	if len(g.Ranges) == 0 {
		return ""
	}
	var b strings.Builder
	for i, r := range g.Ranges {
		sep := ", "
		if i == 0 {
			sep = ": "
		}
		b.WriteString(sep + plural.RangeText(r.From, r.To))
	}
	if g.UnlistedRanges > 0 {
		fmt.Fprintf(&b, " and %d more ranges", g.UnlistedRanges)
	}
	return b.String()
}

func formatEvents(n uint64) string { return formatCount(n, "event") }

func formatCount[N int | uint64](n N, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
