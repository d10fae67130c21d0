package recording

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"ringlet/internal/plural"
)

// VerifyOptions say how much Verify checks.
type VerifyOptions struct {
	// IndexesOnly leaves the data alone: manifests, indexes and sizes are compared.
	IndexesOnly bool
	// Content, if it is not nil, returns what the MEPs of a run should contain.
	Content func(*Manifest) (Content, error)
	// Progress is called with the bytes of a run read and their total, by one goroutine at a time.
	Progress func(runDir string, done, total int64)
}

// Content knows what the MEPs of a run should contain.
type Content interface {
	// Check says what is wrong with the bytes of a MEP whose format is right: a *MissingError if fragments are missing
	// and all others are right. Several goroutines call it.
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
			return l.FirstSource <= int(s) && int(s) <= l.LastSource && l.names(mep)
		}) {
			return false
		}
	}
	return true
}

// names says that fragments of the unit are named as missing in a MEP: builder units have counted it, or it is one of
// an absence. The last count of a builder unit that ended with its run may not have come.
func (l *UnitOutages) names(mep uint64) bool {
	return l.FirstMEP <= mep && mep <= l.LastMEP || slices.ContainsFunc(l.Outages, func(o Outage) bool {
		return o.FromMEP <= mep && (o.ReturnMEP == nil || mep < *o.ReturnMEP)
	})
}

// Verification is the result of Verify.
type Verification struct {
	Runs []RunVerification `json:"runs"`
}

// RunVerification is the result of Verify for one run: its files compared with its verdict.
type RunVerification struct {
	*Contents
	Run             uint32 `json:"run"`
	Concluded       bool   `json:"concluded"` // the manifest has a verdict
	Verdict         string `json:"verdict,omitempty"`
	Why             string `json:"verdict_why,omitempty"` // why it is that verdict, a sentence
	Losses          []Loss `json:"losses,omitempty"`      // what the run lost, by its verdict
	DataRead        bool   `json:"data_read"`             // the data were read, not only indexes
	ContentCompared bool   `json:"compared"`              // the data were compared with what they should contain
	BytesFound      int64  `json:"bytes"`
	// MEPs and EventsFound count those whose bytes are right, each once.
	MEPs        uint64 `json:"meps"`
	EventsFound uint64 `json:"events"`
	// MissingFragments is how many fragments that the verdict names as missing are missing in these events.
	MissingFragments uint64 `json:"missing_fragments,omitempty"`
	// EventsTriggered and EventsClaimed are the verdict's: events triggered in all, and events in this directory.
	EventsTriggered uint64 `json:"events_triggered"`
	EventsClaimed   uint64 `json:"events_claimed"`
	// MissingEvents are the triggered events that are not in the files; NamedMissingEvents is how many of them the
	// verdict names as missing, or as being in another directory of the run; UnnamedMissingEvents are the others.
	MissingEvents        Gaps   `json:"missing"`
	NamedMissingEvents   uint64 `json:"events_named_missing"`
	UnnamedMissingEvents Gaps   `json:"lost"`
	// EventsFoundSince is how many events are there although the verdict names them as missing: they were recovered after
	// it was written. EventsNeverTriggered is how many were never triggered.
	EventsFoundSince     uint64 `json:"events_found_since"`
	EventsNeverTriggered uint64 `json:"events_never_triggered"`
	IsGood               bool   `json:"closed"`

	sound *MEPSet
}

// maxRanges bounds how many ranges of events are listed.
const maxRanges = 100

// IsGood says that no run has a problem, and that the accounts of all runs close.
func (v *Verification) IsGood() bool {
	for i := range v.Runs {
		if !v.Runs[i].IsGood {
			return false
		}
	}
	return len(v.Runs) > 0
}

// Verify reads back the recording in dir: an output directory with runs, the directory of one run, or a merged file.
// Problems are in the Verification; an error says that dir could not be read.
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

// findRuns returns the runs in dir, at least one.
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
		err = fmt.Errorf("no run is recorded in %s: it has no directory named like %s", dir, RunDir("", 123))
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

// balance compares the events whose bytes are right with the verdict.
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

// unnamedMissingEvents returns the events that are here by the verdict, but not in the files. If the run has other
// directories, or the verdict does not list all ranges, only their number is certain.
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
