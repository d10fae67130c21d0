package recording

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"ringlet/internal/plural"
)

// VerifyOptions say how much Verify looks at.
type VerifyOptions struct {
	// IndexesOnly leaves the data alone: manifests, indexes and sizes are held against each other.
	IndexesOnly bool
	// Content, if it is given, knows what the MEPs of a run should be beyond their format.
	Content func(*Manifest) (Content, error)
	// Progress is told how many of how many bytes of a run have been read, from one goroutine at a time.
	Progress func(runDir string, done, total int64)
}

// Content knows what the bytes of a run's MEPs should be.
type Content interface {
	// Check says what is wrong with the bytes of a MEP that are sound by their format: a *MissingError where fragments are
	// missing and all others are right. Several goroutines call it.
	Check(f Format, e *Entry, data []byte) error
	Close() error
}

// A MissingError says that a MEP was built with missing fragments.
type MissingError struct {
	Sources   []uint16 // in order, each once
	Fragments uint64
}

// Add adds missing fragments of a source.
func (e *MissingError) Add(source uint16, fragments int) {
	e.Fragments += uint64(fragments)
	if at, known := slices.BinarySearch(e.Sources, source); !known {
		e.Sources = slices.Insert(e.Sources, at, source)
	}
}

func (e *MissingError) Error() string {
	sources := plural.NamedRange("source", uint64(e.Sources[0]), uint64(e.Sources[len(e.Sources)-1]))
	if n := len(e.Sources); int(e.Sources[n-1]-e.Sources[0]) != n-1 {
		sources = fmt.Sprintf("%d of %s", n, sources)
	}
	return fmt.Sprintf("%d fragments of %s are missing", e.Fragments, sources)
}

// namesMissing says that the verdict names all sources as missing in a MEP.
func (v *Verdict) namesMissing(mep uint64, sources []uint16) bool {
	if v == nil {
		return false
	}
	for _, s := range sources {
		if !slices.ContainsFunc(v.UnitOutages, func(l UnitOutages) bool {
			return l.FirstMEP <= mep && mep <= l.LastMEP && l.FirstSource <= int(s) && int(s) <= l.LastSource
		}) {
			return false
		}
	}
	return true
}

// Verification is what Verify found.
type Verification struct {
	Runs []RunVerification `json:"runs"`
}

// RunVerification is what Verify found of one run: what its files have, and what its verdict says.
type RunVerification struct {
	*Contents
	Run             uint32 `json:"run"`
	Concluded       bool   `json:"concluded"` // the manifest has a verdict
	Verdict         string `json:"verdict,omitempty"`
	Why             string `json:"verdict_why,omitempty"` // why it is that, a sentence
	Losses          []Loss `json:"losses,omitempty"`      // what the run lost, by its verdict
	DataRead        bool   `json:"data_read"`             // the data were read, not only indexes
	ContentCompared bool   `json:"compared"`              // with what they were made of
	BytesFound      int64  `json:"bytes"`
	// MEPs and EventsFound are those found sound, each once.
	MEPs        uint64 `json:"meps"`
	EventsFound uint64 `json:"events"`
	// MissingFragments is how many fragments are missing in events that are here, as the verdict says.
	MissingFragments uint64 `json:"missing_fragments,omitempty"`
	// EventsTriggered and Claimed are the verdict's: events triggered in all, and events in this directory.
	EventsTriggered uint64 `json:"events_triggered"`
	EventsClaimed   uint64 `json:"events_claimed"`
	// MissingEvents is which triggered events are not in the files; NamedMissingEvents how many of them the verdict names
	// as missing, or as being in another directory of the run; Lost those that it does not name.
	MissingEvents        Gaps   `json:"missing"`
	NamedMissingEvents   uint64 `json:"events_named_missing"`
	UnnamedMissingEvents Gaps   `json:"lost"`
	// EventsFoundSince is events that the verdict names as missing and that are there: they were recovered after it was
	// written. EventsNeverTriggered is events that were never triggered.
	EventsFoundSince     uint64 `json:"events_found_since"`
	EventsNeverTriggered uint64 `json:"events_never_triggered"`
	IsGood               bool   `json:"closed"`

	sound *MEPSet
}

// maxRanges bounds how many ranges of events are listed.
const maxRanges = 100

// IsGood says that nothing is wrong with any run, and that its accounts close.
func (v *Verification) IsGood() bool {
	for i := range v.Runs {
		if !v.Runs[i].IsGood {
			return false
		}
	}
	return len(v.Runs) > 0
}

// Verify reads back what is recorded in dir: an output directory with runs, the directory of one run, or a merged file.
// What it finds is in the Verification; an error says that it could not look.
func Verify(ctx context.Context, dir string, o VerifyOptions) (*Verification, error) {
	runs, err := findRuns(dir)
	if err != nil {
		return nil, err
	}
	v := &Verification{}
	for _, run := range runs {
		r, err := verifyRun(ctx, run, o)
		if err != nil {
			return nil, err
		}
		v.Runs = append(v.Runs, *r)
	}
	return v, nil
}

// findRuns is the runs in dir, at least one.
func findRuns(dir string) ([]string, error) {
	st, err := os.Stat(dir)
	switch {
	case err != nil:
		return nil, err
	case st.Mode().IsRegular():
		return []string{dir}, nil
	}
	runs, err := Runs(dir)
	if err == nil && len(runs) == 0 {
		err = fmt.Errorf("no run is recorded in %s: nothing in it is named like %s", dir, RunDir("", 123))
	}
	return runs, err
}

func verifyRun(ctx context.Context, path string, o VerifyOptions) (r *RunVerification, err error) {
	c, err := readAt(ctx, path, o.IndexesOnly)
	if err != nil {
		return nil, err
	}
	r = &RunVerification{
		Contents:   c,
		Run:        c.Manifest.Run,
		DataRead:   !o.IndexesOnly,
		BytesFound: c.bytes(),
		sound:      c.MEPSet,
	}
	if !o.IndexesOnly {
		var content Content
		if o.Content != nil {
			if content, err = o.Content(c.Manifest); err != nil {
				return nil, err
			}
			r.ContentCompared = true
			defer func() { err = errors.Join(err, content.Close()) }()
		}
		d, err := readData(ctx, c, content, o)
		if err != nil {
			return nil, err
		}
		r.sound, r.MissingFragments = d.sound, d.missingFragments
	}
	r.balance()
	return r, nil
}

// balance holds the events that were found sound against the verdict.
func (r *RunVerification) balance() {
	r.MEPs, r.EventsFound = r.sound.MEPs(), r.sound.Events()
	v := r.Manifest.Verdict
	if v == nil {
		r.MissingEvents, r.UnnamedMissingEvents = Gaps{Ranges: []Range{}}, Gaps{Ranges: []Range{}}
		return
	}
	r.Concluded, r.Verdict, r.EventsTriggered, r.EventsClaimed = true, v.Verdict, v.EventsTriggered, v.EventsInDirectory
	r.Why, r.Losses = v.Why, v.Losses
	r.MissingEvents = r.sound.Missing(v.EventsTriggered, maxRanges)
	r.EventsNeverTriggered = r.sound.countBeyond(v.EventsTriggered)
	here := r.EventsFound - r.EventsNeverTriggered
	r.NamedMissingEvents = v.EventsTriggered - min(v.EventsTriggered, v.EventsInDirectory)
	r.UnnamedMissingEvents = r.unnamedMissingEvents(v)
	if here > v.EventsInDirectory {
		r.EventsFoundSince = here - v.EventsInDirectory
	}
	r.IsGood = r.ProblemCount() == 0 && r.UnnamedMissingEvents.EventCount == 0 && r.EventsNeverTriggered == 0
}

// unnamedMissingEvents tells which events the verdict says are here, and are not. Where the verdict knows of other
// directories, or names not all ranges, only their number is certain.
func (r *RunVerification) unnamedMissingEvents(v *Verdict) Gaps {
	lost := Gaps{Ranges: []Range{}}
	if v.EventsInDirectory == v.EventsOutput && v.UnlistedMissingRanges == 0 {
		named := v.MissingEvents
		for from, to := range r.sound.missingRanges(v.EventsTriggered) {
			for from < to {
				for len(named) > 0 && named[0].To < from {
					named = named[1:]
				}
				end := to
				if len(named) > 0 {
					end = min(to, max(from, named[0].From))
				}
				if from < end {
					lost.add(from, end, maxRanges)
				}
				if from = end; from < to { // named[0] has the event from
					from = min(to-1, named[0].To) + 1
				}
			}
		}
	}
	if missing := v.EventsInDirectory - min(v.EventsInDirectory,
		r.EventsFound-r.EventsNeverTriggered); missing > lost.EventCount {
		lost.EventCount = missing
	}
	return lost
}
