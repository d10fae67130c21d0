package recording

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"ringlet/internal/safeopen"
)

// RecoveryResult is what Recover found of one segment, or of a manifest, and what it did.
type RecoveryResult struct {
	Dir     string    // of the run
	Name    string    // name of the closed segment, or run.json
	Segment SegmentID // zero for a manifest
	What    string    // a sentence about the file; String puts its name before it
	// Listed says that the segment is now closed and in the manifest. The figures are those of its whole MEPs.
	Listed    bool
	MEPs      uint64
	Events    uint64
	Bytes     int64
	TailBytes int64 // bytes after the last whole MEP, in a file .tail
	// WriterLives says that its writer, or another Recover, is at work: the segment was left alone. What is empty then.
	WriterLives bool
	Err         error // why it could not be recovered; no data are lost by that
}

func (f *RecoveryResult) String() string {
	switch {
	case f.Err != nil:
		return fmt.Sprintf("%s: it cannot be recovered: %v", f.Name, f.Err)
	case f.WriterLives:
		return f.Name + ": it is being written: left alone"
	}
	return f.Name + ": " + f.What
}

// Recover closes what killed processes left in dir, which is an output directory or the directory of a run. It keeps
// the whole MEPs of every segment whose writer is gone, moves the bytes after them to a file .tail, closes the segment
// and lists it in the manifest, which it rebuilds if it is missing or damaged. Recover may be killed and called again
// at any point, and several may run at once. The error is that of ctx or of dir; the error of a single segment is in
// its RecoveryResult.
func Recover(ctx context.Context, dir string) ([]RecoveryResult, error) {
	var results []RecoveryResult
	runs, err := Runs(dir)
	var link *safeopen.SymlinkError
	if errors.As(err, &link) {
		results = append(results, RecoveryResult{Dir: dir, Name: filepath.Base(link.Path), Err: link})
	} else if err != nil {
		return nil, err
	}
	for _, runDir := range runs {
		r := recovery{ctx: ctx, dir: runDir, beforeStep: func(string) error { return nil }}
		err := r.recover()
		results = append(results, r.found...)
		if err != nil {
			return results, fmt.Errorf("%s cannot be recovered: %w", runDir, err)
		}
	}
	return results, nil
}

// recovery is one pass over the directory of a run.
type recovery struct {
	ctx             context.Context
	dir             string
	beforeStep      func(what string) error // called before each change: tests end the pass there
	manifest        *Manifest               // nil: missing or damaged
	manifestDamage  error                   // why manifest is nil
	manifestRebuilt bool                    // it was made anew
	run             Manifest                // from the manifest, or else from an index
	liveBuilders    map[int]bool            // builder units with a segment in use
	closedSegments  []closedSegment         // closed, and to be listed in the manifest
	found           []RecoveryResult
}

type closedSegment struct {
	id    SegmentID
	entry Segment
	found int // index in recovery.found
}

func (r *recovery) path(name string) string { return filepath.Join(r.dir, name) }

func (r *recovery) recover() (err error) {
	names, err := segmentFiles(r.dir)
	if err != nil {
		return err
	}
	var damaged *damagedError
	if r.manifest, err = Load(r.dir); errors.As(err, &damaged) {
		r.manifestDamage = damaged
	} else if err != nil {
		return err
	}
	r.liveBuilders = map[int]bool{}
	if !r.identify(names) {
		return nil
	}
	if r.manifest == nil { // before the steps, which may remove the index that identifies the run
		r.manifestRebuilt = true
		if err := withRunLock(r.dir, r.rebuildManifest); err != nil {
			return err
		}
	}
	for _, id := range segmentIDs(names) {
		if err := r.recoverSegment(id); err != nil {
			return err
		}
	}
	return r.updateManifest()
}

// identify finds out which run this is: from the manifest, or else from the first index with a valid header.
func (r *recovery) identify(names []string) bool {
	if r.manifest != nil {
		r.run = *r.manifest
		return true
	}
	slices.Sort(names)
	for _, name := range names {
		if _, isIndex := parseIndex(name); !isIndex {
			continue
		}
		h, err := readHeader(r.path(name))
		if err == nil {
			r.run = Manifest{Run: h.Run, Key: h.Key, Format: h.Segment.Format, Created: time.UnixMicro(h.Created)}
			return true
		}
	}
	if len(names) > 0 || !errors.Is(r.manifestDamage, fs.ErrNotExist) {
		err := fmt.Errorf("%w, and no index here is whole", r.manifestDamage)
		r.found = append(r.found, RecoveryResult{Dir: r.dir, Name: ManifestName, Err: err})
	}
	return false
}

// segmentIDs returns the segments to which files with these names belong, each once. An index without data does not
// tell its format.
func segmentIDs(names []string) (ids []SegmentID) {
	at := map[SegmentID]int{}
	for _, name := range names {
		id, _, isData := ParseSegment(name)
		index, isIndex := parseIndex(name)
		if isIndex {
			id = index
		}
		if !isData && !isIndex {
			continue // only a tail
		}
		key := SegmentID{Builder: id.Builder, Number: id.Number}
		if i, there := at[key]; !there {
			at[key] = len(ids)
			ids = append(ids, id)
		} else if isData {
			ids[i].Format = id.Format
		}
	}
	slices.SortFunc(ids, func(a, b SegmentID) int { return strings.Compare(a.baseName(), b.baseName()) })
	return ids
}

// recoverSegment recovers one segment, if its writer is gone. An error ends the pass.
func (r *recovery) recoverSegment(id SegmentID) error {
	if id.Format == 0 {
		id.Format = r.run.Format
	}
	found := RecoveryResult{Dir: r.dir, Name: id.Name(), Segment: id}
	if r.manifest.HasSegment(id) && !pathExists(r.path(id.Name()+OpenSuffix)) {
		return nil
	}
	if !pathExists(r.path(id.Index())) && !pathExists(r.path(id.Name()+OpenSuffix)) {
		if pathExists(r.path(id.Name())) {
			found.What = "it is not in the manifest and has no index: left as it is"
			r.found = append(r.found, found)
		}
		return nil
	}
	index, err := openExclusive(r.path(id.Index()))
	if errors.Is(err, errLocked) {
		found.WriterLives = true
		r.liveBuilders[id.Builder] = true
	} else if err == nil {
		err = r.recoverLocked(id, index, &found)
		err = errors.Join(err, index.Close())
		if err != nil && (r.ctx.Err() != nil || errors.Is(err, errKilled)) {
			return err
		}
		found.Err = err
	} else {
		found.Err = err
	}
	if found.What != "" || found.WriterLives || found.Err != nil {
		r.found = append(r.found, found)
	}
	return nil
}

// errKilled is the error with which tests end a pass.
var errKilled = errors.New("killed")

// recoverLocked examines a segment under the lock of its index, and does the steps decided for it.
func (r *recovery) recoverLocked(id SegmentID, index *os.File, found *RecoveryResult) error {
	f, p, err := r.examine(id, index)
	if err != nil {
		return err
	}
	steps, what := decideSteps(f)
	for _, s := range steps {
		if err := r.beforeStep(string(s)); err != nil {
			return err
		}
		if err := r.perform(s, f, p, index); err != nil {
			return fmt.Errorf("cannot %s: %w", s, err)
		}
	}
	found.What, found.TailBytes = what, max(f.tailSize, 0)
	if slices.Contains(steps, stepCopyTail) {
		found.TailBytes = f.dataSize - f.provenEnd
	} else if slices.Contains(steps, stepMoveData) {
		found.TailBytes = f.dataSize
	}
	if !slices.Contains(steps, stepListSegment) {
		return nil
	}
	found.MEPs, found.Events, found.Bytes = p.totals.MEPs, p.totals.Events, p.totals.Bytes
	entry := Segment{SegmentTotals: p.totals, Recovered: !r.manifestRebuilt || f.hasOpenData, TailBytes: found.TailBytes}
	entry.SetClosed(id, time.Now())
	r.closedSegments = append(r.closedSegments, closedSegment{id: id, entry: entry, found: len(r.found)})
	r.run.Packing = max(r.run.Packing, int(p.maxEvents))
	r.run.Live = r.run.Live || p.isLive || p.eventsPerMEP > uint64(r.run.Packing)
	return nil
}

// updateManifest writes the recovered segments to the manifest.
func (r *recovery) updateManifest() error {
	if len(r.closedSegments) == 0 && !slices.ContainsFunc(r.manifest.Builders, r.isAbandoned) {
		if !pathExists(tempPath(r.dir)) {
			return nil
		}
		return withRunLock(r.dir, func() error { return removeFile(tempPath(r.dir)) })
	}
	return withRunLock(r.dir, func() error {
		m, err := Load(r.dir)
		if err != nil {
			return err
		}
		for _, c := range r.closedSegments {
			if b := m.Builder(c.id.Builder); !m.HasSegment(c.id) {
				b.AddSegment(c.entry)
			}
			r.found[c.found].Listed = true
		}
		if m.Packing == 0 {
			m.Packing, m.Live, m.Created = r.run.Packing, r.run.Live, r.run.Created.UTC()
		}
		if err := r.recheckLive(); err != nil {
			return err
		}
		for i := range m.Builders {
			if r.isAbandoned(m.Builders[i]) {
				m.Builders[i].State = StateRecovered
			}
		}
		if err := r.beforeStep("write the manifest"); err != nil {
			return err
		}
		return storeManifest(r.dir, m)
	})
}

// recheckLive checks again which builder units are writing: another Recover may have held a lock, and may be done now.
func (r *recovery) recheckLive() error {
	names, err := segmentFiles(r.dir)
	if err != nil {
		return err
	}
	live := map[int]bool{}
	for _, name := range names {
		id, isIndex := parseIndex(name)
		if isIndex && r.liveBuilders[id.Builder] && !live[id.Builder] {
			live[id.Builder] = isInUse(r.path(name))
		}
	}
	r.liveBuilders = live
	return nil
}

// isAbandoned says that a builder unit is writing by the manifest, but not any more.
func (r *recovery) isAbandoned(b Builder) bool {
	return b.State == StateWriting && !r.liveBuilders[b.Index]
}

// rebuildManifest makes a manifest without segments, unless another process has made one. It keeps a damaged one under
// another name.
func (r *recovery) rebuildManifest() (err error) {
	if r.manifest, err = Load(r.dir); err == nil {
		return nil
	}
	const anew = "was made anew from the indexes of the segments"
	found := RecoveryResult{Dir: r.dir, Name: ManifestName, What: "it did not exist, and " + anew}
	if !errors.Is(err, fs.ErrNotExist) {
		aside, moveErr := r.renameDamaged()
		if moveErr != nil {
			return moveErr
		}
		found.What = fmt.Sprintf("it was damaged (%v), and %s; the damaged one is %s", errors.Unwrap(err), anew, aside)
	}
	if err := r.beforeStep("make the manifest anew"); err != nil {
		return err
	}
	r.found = append(r.found, found)
	r.manifest = newManifest(r.run)
	return storeManifest(r.dir, r.manifest)
}

// renameDamaged gives the damaged manifest a free name.
func (r *recovery) renameDamaged() (name string, err error) {
	for i := 1; ; i++ {
		name = fmt.Sprintf("%s.damaged-%d", ManifestName, i)
		if err := r.beforeStep("move the damaged manifest aside"); err != nil {
			return "", err
		}
		if err := r.rename(manifestPath(r.dir), r.path(name)); !errors.Is(err, fs.ErrExist) {
			return name, err
		}
	}
}
