package recording

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
)

// Contents is what a reader finds in the directory of a run, by its manifest and the indexes. Of the data it reads
// only the last MEP of each closed segment: a file that was cut and extended to its old size has zeros there.
type Contents struct {
	Dir      string            `json:"path"`
	Manifest *Manifest         `json:"-"`
	MEPSet   *MEPSet           `json:"-"` // every MEP that was found
	Builders []BuilderContents `json:"builders"`
	// Merged is the merged file, if it holds the MEPs in place of segments.
	Merged *SegmentContents `json:"merged,omitempty"`
	// Superseded is how many copies of MEPs there are that are also there with a higher attempt; Copies lists the first
	// of them.
	Superseded uint64 `json:"superseded"`
	Copies     []Copy `json:"copies,omitempty"`
	// DrainedDecisions are the second filter's decisions on events of segments whose files are gone: MEPSet has their
	// MEPs.
	DrainedDecisions *Decisions `json:"drained,omitempty"`
	SlowData         *SlowData  `json:"slow_data,omitempty"` // nil: there is none
	// Problems are those of files that belong to no builder unit.
	Problems Problems `json:"problems,omitzero"`

	ledger      *Ledger // of a backlog; nil before it is needed
	removedMEPs *MEPSet // the MEPs of segments that are drained and removed; nil: there are none
	checkLast   bool    // read the last MEP of each closed segment
}

// BuilderContents is what a reader finds of one builder unit.
type BuilderContents struct {
	Index    int               `json:"index"`
	State    State             `json:"state"` // as in the manifest; empty if the manifest does not know the builder unit
	Segments []SegmentContents `json:"segments"`
}

// SegmentContents is one segment as a reader finds it. Its totals come from its index, as far as its data reach.
type SegmentContents struct {
	ID     SegmentID `json:"-"`
	Name   string    `json:"name"` // of the data file
	IsOpen bool      `json:"open,omitempty"`
	// IsDrained says that a second filter has judged its events, and that its files were removed then.
	IsDrained bool `json:"drained,omitempty"`
	SegmentTotals
	Problems Problems `json:"problems,omitzero"`

	listed     *Segment // the segment in the manifest; nil: it is not there
	hasData    bool     // the data file is there
	indexPath  string   // path
	entryCount int64    // usable entries of the index
	fileSize   int64    // bytes of the data file

	// For each entriesPerScan entries the lowest and the highest MEP; without a MEP the first is above the second.
	mepRanges    [][2]uint64
	nextMEP      uint64 // after the last MEP
	isDisordered bool   // a MEP comes after a higher one, or twice
}

// noteRange notes the MEP of the next good entry.
func (s *SegmentContents) noteRange(e *scannedEntry) {
	for int64(len(s.mepRanges)) <= e.number/entriesPerScan {
		s.mepRanges = append(s.mepRanges, [2]uint64{math.MaxUint64, 0})
	}
	r := &s.mepRanges[e.number/entriesPerScan]
	r[0], r[1] = min(r[0], e.MEP), max(r[1], e.MEP)
	s.isDisordered = s.isDisordered || e.MEP < s.nextMEP
	s.nextMEP = e.MEP + 1
}

// Copy is a MEP that was found more than once.
type Copy struct {
	MEP             uint64 `json:"mep"`
	Segment         string `json:"segment"` // where the MEP was found again
	Attempt         uint32 `json:"attempt"` // of the copy in Segment
	PreviousAttempt uint32 `json:"before"`  // the highest attempt found before
}

// maxCopies bounds how many copies are listed.
const maxCopies = 16

// Events returns how many events the files have, each counted once.
func (c *Contents) Events() uint64 { return c.MEPSet.Events() }

// AllProblems ranges over the listed problems of all files.
func (c *Contents) AllProblems(yield func(*Problem) bool) {
	for _, list := range c.problemLists() {
		for i := range list.Listed {
			if !yield(&list.Listed[i]) {
				return
			}
		}
	}
}

// ProblemCount returns how many problems there are.
func (c *Contents) ProblemCount() (n uint64) {
	for _, list := range c.problemLists() {
		n += list.count()
	}
	return n
}

func (c *Contents) problemLists() []*Problems {
	lists := []*Problems{&c.Problems}
	for _, s := range c.allSegments() {
		lists = append(lists, &s.Problems)
	}
	return lists
}

// allSegments returns the merged file, or the segments of all builder units.
func (c *Contents) allSegments() (list []*SegmentContents) {
	if c.Merged != nil {
		list = append(list, c.Merged)
	}
	for b := range c.Builders {
		for s := range c.Builders[b].Segments {
			list = append(list, &c.Builders[b].Segments[s])
		}
	}
	return list
}

// bytes returns how many bytes the MEPs have, copies included.
func (c *Contents) bytes() (n int64) {
	for _, s := range c.allSegments() {
		n += s.Bytes
	}
	return n
}

// readTries is how often Read reads a directory that changes meanwhile.
const readTries = 5

// Read reads the contents of the directory of a run, or of a merged file. Problems with files are in Contents; an
// error says that the manifest cannot be read, or that ctx ended. If a segment is closed at that moment, Read reads
// again.
func Read(ctx context.Context, path string) (*Contents, error) { return readAt(ctx, path, true) }

// readAt does what Read does. With checkLast it also reads the data of the last MEP of each segment; else it reads no
// data.
func readAt(ctx context.Context, path string, checkLast bool) (*Contents, error) {
	if st, err := os.Stat(path); err == nil && st.Mode().IsRegular() {
		return readMerged(ctx, path, checkLast)
	}
	for try := 1; ; try++ {
		c, before, err := readOnce(ctx, path, checkLast)
		if err != nil {
			return nil, err
		}
		after, err := readBounded(filepath.Join(path, ManifestName))
		if c.ProblemCount() == 0 || try == readTries || err == nil && bytes.Equal(before, after) {
			return c, nil
		}
	}
}

// readOnce reads the directory once, and returns the bytes of the manifest, too.
func readOnce(ctx context.Context, dir string, checkLast bool) (c *Contents, manifest []byte, err error) {
	path := filepath.Join(dir, ManifestName)
	manifest, err = readBounded(path)
	if err != nil {
		return nil, nil, notRunError(dir, path, err)
	}
	m, err := readManifest(manifest, path)
	if err != nil {
		return nil, nil, err
	}
	names, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil, err
	}
	c = &Contents{
		Dir:       dir,
		Manifest:  m,
		MEPSet:    m.NewMEPSet(),
		checkLast: checkLast,
	}
	if c.SlowData, err = readSlowData(dir); err != nil {
		return nil, nil, err
	}
	c.sortFiles(names)
	if m.Merged != nil && c.segmentsGone() {
		merged, err := readMerged(ctx, m.Merged.Path, checkLast)
		if err != nil {
			return nil, nil, fmt.Errorf("the segments of %s were merged into %s: %w", dir, m.Merged.Path, err)
		}
		merged.Dir, merged.Manifest, merged.SlowData = dir, m, c.SlowData
		return merged, manifest, nil
	}
	for _, s := range c.allSegments() {
		if err := c.readSegment(ctx, s); err != nil {
			return nil, nil, err
		}
	}
	return c, manifest, nil
}

// notRunError returns the error of a directory without a manifest.
func notRunError(dir, path string, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, statErr := os.Stat(dir); statErr != nil {
		return statErr
	}
	return &damagedError{Path: path, What: "it does not exist", Cause: err}
}

// segmentsGone says that a segment in the manifest is not there, as after a merge.
func (c *Contents) segmentsGone() bool {
	for _, s := range c.allSegments() {
		if s.listed != nil && !s.hasData {
			return true
		}
	}
	return false
}

// sortFiles assigns the files of the directory to builder units and segments.
func (c *Contents) sortFiles(names []os.DirEntry) {
	segments, indexes := map[SegmentID]*SegmentContents{}, map[string]bool{}
	for listed := range c.Manifest.AllSegments {
		id, _, _ := ParseSegment(listed.Name) // parseManifest has checked it
		segments[id] = &SegmentContents{ID: id, Name: id.Name(), listed: listed}
	}
	for _, n := range names {
		name := n.Name()
		if _, ok := parseIndex(name); ok {
			indexes[name] = true
		}
		id, open, ok := ParseSegment(name)
		if !ok {
			continue
		}
		s := segments[id]
		if s == nil {
			s = &SegmentContents{ID: id}
			segments[id] = s
		}
		if open && s.hasData {
			c.Problems.add(WrongCounts, name, nil, "the segment is there closed, too: nothing of the open file is counted")
			continue
		}
		s.Name, s.IsOpen, s.hasData = name, open, true
	}
	states := map[int]State{}
	for _, b := range c.Manifest.Builders {
		states[b.Index] = b.State
	}
	for _, id := range slices.SortedFunc(maps.Keys(segments), SegmentID.compare) {
		if n := len(c.Builders); n == 0 || c.Builders[n-1].Index != id.Builder {
			c.Builders = append(c.Builders, BuilderContents{Index: id.Builder, State: states[id.Builder]})
		}
		s, b := segments[id], &c.Builders[len(c.Builders)-1]
		s.indexPath = filepath.Join(c.Dir, id.Index())
		delete(indexes, id.Index())
		b.Segments = append(b.Segments, *s)
	}
	for _, name := range slices.Sorted(maps.Keys(indexes)) {
		c.Problems.add(MissingFile, name, nil, "there is an index, but no segment")
	}
}

// readManifest reads a manifest and refuses one whose number of events in a MEP is impossible.
func readManifest(data []byte, path string) (*Manifest, error) {
	m, err := parseManifest(data)
	if err == nil && (m.Packing < 1 || m.Packing > 1<<16-1) {
		err = fmt.Errorf("it says that a MEP has %d events", m.Packing)
	}
	if err != nil {
		return nil, &damagedError{Path: path, What: err.Error(), Cause: err}
	}
	return m, nil
}
