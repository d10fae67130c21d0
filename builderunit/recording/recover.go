package recording

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Found is what Recover found of one segment, or of a manifest, and what it did.
type Found struct {
	Dir     string    // of the run
	Name    string    // of the segment, as it would be called closed, or run.json
	Segment SegmentID // zero for a manifest
	What    string    // a sentence, of which the name is the subject
	// Listed says that the segment is closed and in the manifest now. The figures are those of its whole MEPs.
	Listed    bool
	MEPs      uint64
	Events    uint64
	Bytes     int64
	TailBytes int64 // behind the last whole MEP, in a file .tail
	// Live says that its writer is at work, or another Recover: it was left alone. What is empty then.
	Live bool
	Err  error // why it could not be recovered; nothing is lost by that
}

func (f *Found) String() string {
	switch {
	case f.Err != nil:
		return fmt.Sprintf("%s: it cannot be recovered: %v", f.Name, f.Err)
	case f.Live:
		return f.Name + ": it is being written: left alone"
	}
	return f.Name + ": " + f.What
}

// Recover closes what killed processes left in dir, which is an output directory or the directory of a run: of every segment
// whose writer is gone the whole MEPs are kept, what follows them is moved to a file .tail, and the segment is closed and put
// into the manifest, which is made anew where it is missing or damaged. It may be killed and begun again at any point, and
// several may run at once. The error is that of ctx or of dir; what is wrong with one segment is in its Found.
func Recover(ctx context.Context, dir string) ([]Found, error) {
	runs, err := Runs(dir)
	if err != nil {
		return nil, err
	}
	var all []Found
	for _, runDir := range runs {
		r := recovery{ctx: ctx, dir: runDir, point: func(string) error { return nil }}
		err := r.run()
		all = append(all, r.found...)
		if err != nil {
			return all, fmt.Errorf("%s cannot be recovered: %w", runDir, err)
		}
	}
	return all, nil
}

// recovery is one passage over the directory of a run.
type recovery struct {
	ctx      context.Context
	dir      string
	point    func(what string) error // called before each change: tests end there
	manifest *Manifest               // nil: missing or damaged
	damage   error                   // why it is nil
	about    About                   // what indexes say of the run where the manifest cannot
	live     map[int]bool            // builder units that are at work
	closed   []closedSegment         // to be listed
	found    []Found
}

type closedSegment struct {
	id    SegmentID
	entry Segment
	found int // of found
}

func (r *recovery) path(name string) string { return filepath.Join(r.dir, name) }

func (r *recovery) run() (err error) {
	names, err := segmentFiles(r.dir)
	if err != nil {
		return err
	}
	var damaged *DamagedError
	if r.manifest, err = Load(r.dir); errors.As(err, &damaged) {
		r.damage = damaged
	} else if err != nil {
		return err
	}
	r.live = map[int]bool{}
	if !r.identify(names) {
		return nil
	}
	for _, id := range segmentsOf(names) {
		if err := r.segment(id); err != nil {
			return err
		}
	}
	return r.conclude()
}

// identify finds out which run this is: by the manifest, or else by the first index that is whole.
func (r *recovery) identify(names []string) bool {
	if m := r.manifest; m != nil {
		r.about.Run, r.about.Created = m.Run, m.Created
		r.about.Key, _ = ParseKey(m.Key)
		r.about.Format, _ = ParseFormat(m.Format)
		return true
	}
	slices.Sort(names)
	for _, name := range names {
		if _, isIndex := ParseIndex(name); !isIndex {
			continue
		}
		h, err := readHeader(r.path(name))
		if err == nil {
			r.about = About{Run: h.Run, Key: h.Key, Format: h.Segment.Format, Created: time.UnixMicro(h.Created)}
			return true
		}
	}
	if len(names) > 0 || !errors.Is(r.damage, fs.ErrNotExist) {
		r.found = append(r.found, Found{Dir: r.dir, Name: ManifestName, Err: fmt.Errorf("%w, and no index here is whole", r.damage)})
	}
	return false
}

// segmentsOf are the segments that files with these names belong to, each once. The format is not known of a lone index.
func segmentsOf(names []string) (ids []SegmentID) {
	at := map[SegmentID]int{}
	for _, name := range names {
		id, _, isData := ParseSegment(name)
		index, isIndex := ParseIndex(name)
		if isIndex {
			id = index
		}
		if !isData && !isIndex {
			continue // a tail alone
		}
		key := SegmentID{Builder: id.Builder, Number: id.Number}
		if i, there := at[key]; !there {
			at[key] = len(ids)
			ids = append(ids, id)
		} else if isData {
			ids[i].Format = id.Format
		}
	}
	slices.SortFunc(ids, func(a, b SegmentID) int { return strings.Compare(a.Base(), b.Base()) })
	return ids
}

// segment recovers one segment, if its writer is gone. The error is one that ends the passage.
func (r *recovery) segment(id SegmentID) error {
	if id.Format == 0 {
		id.Format = r.about.Format
	}
	found := Found{Dir: r.dir, Name: id.Name(), Segment: id}
	if r.manifest != nil && r.manifest.listed(id) && !exists(r.path(id.Name()+OpenSuffix)) {
		return nil
	}
	if !exists(r.path(id.Index())) && !exists(r.path(id.Name()+OpenSuffix)) {
		if exists(r.path(id.Name())) {
			found.What = "it is not in the manifest and has no index: left as it is"
			r.found = append(r.found, found)
		}
		return nil
	}
	index, err := seize(r.path(id.Index()))
	if errors.Is(err, ErrLocked) {
		found.Live = true
		r.live[id.Builder] = true
	} else if err == nil {
		err = r.locked(id, index, &found)
		err = errors.Join(err, index.Close())
		if err != nil && (r.ctx.Err() != nil || errors.Is(err, errKilled)) {
			return err
		}
		found.Err = err
	} else {
		found.Err = err
	}
	if found.What != "" || found.Live || found.Err != nil {
		r.found = append(r.found, found)
	}
	return nil
}

// errKilled is what tests end a passage with.
var errKilled = errors.New("killed")

// locked looks at a segment under the lock of its index, and does what is decided.
func (r *recovery) locked(id SegmentID, index *os.File, found *Found) error {
	f, p, err := r.examine(id, index)
	if err != nil {
		return err
	}
	steps, what := decide(f)
	for _, s := range steps {
		if err := r.point(string(s)); err != nil {
			return err
		}
		if err := r.do(s, f, p, index); err != nil {
			return fmt.Errorf("cannot %s: %w", s, err)
		}
	}
	found.What, found.TailBytes = what, max(f.tail, 0)
	if slices.Contains(steps, copyTail) {
		found.TailBytes = f.size - f.keep
	} else if slices.Contains(steps, moveAll) {
		found.TailBytes = f.size
	}
	if !slices.Contains(steps, list) {
		return nil
	}
	found.MEPs, found.Events, found.Bytes = p.about.MEPs, p.about.Events, p.about.Bytes
	entry := p.about
	entry.Name, entry.Number, entry.CRC, entry.Closed = id.Name(), id.Number, CRCText(p.crc), time.Now().UTC()
	entry.Recovered, entry.TailBytes = r.manifest != nil || f.open, found.TailBytes
	r.closed = append(r.closed, closedSegment{id: id, entry: entry, found: len(r.found)})
	r.about.Packing = max(r.about.Packing, int(p.events))
	return nil
}

// examine finds out what is there of a segment.
func (r *recovery) examine(id SegmentID, index *os.File) (f facts, p proof, err error) {
	f = facts{id: id, tail: -1, listed: r.manifest != nil && r.manifest.listed(id)}
	st, err := index.Stat()
	if err != nil {
		return f, p, err
	}
	f.indexSize = st.Size()
	var h Header
	if f.header, h, err = judge(index, id, r.about.Run, r.about.Key); err != nil {
		return f, p, err
	}
	if r.manifest == nil && f.header == headerOurs && time.UnixMicro(h.Created).Before(r.about.Created) {
		r.about.Created = time.UnixMicro(h.Created)
	}
	if st, err := os.Lstat(r.path(tailName(id))); err == nil {
		f.tail = st.Size()
	}
	f.open, f.closed = exists(r.path(id.Name()+OpenSuffix)), exists(r.path(id.Name()))
	if f.open && f.closed && sameFiles(r.path(id.Name()+OpenSuffix), r.path(id.Name())) {
		f.open, f.twice = false, true
	}
	if f.open == f.closed {
		return f, p, nil
	}
	data, err := openRegular(r.dataPath(f))
	if err != nil {
		return f, p, err
	}
	defer func() { err = errors.Join(err, data.Close()) }()
	if st, err = data.Stat(); err != nil {
		return f, p, err
	}
	f.size = st.Size()
	entries := io.NewSectionReader(index, HeaderBytes, max(0, f.indexSize-HeaderBytes))
	p, err = prove(r.ctx, entries, data, f.size)
	f.right, f.keep = p.right, p.about.Bytes
	if err == nil && f.tail >= 0 && f.tail == f.size-f.keep {
		f.copied, err = r.sameTail(data, f)
	}
	return f, p, err
}

// sameTail says whether the file .tail is what follows the whole MEPs in the data: a copy that a killed Recover made.
func (r *recovery) sameTail(data io.ReaderAt, f facts) (same bool, err error) {
	tail, err := openRegular(r.path(tailName(f.id)))
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, tail.Close()) }()
	behind := bufio.NewReader(io.NewSectionReader(data, f.keep, f.tail))
	copied := bufio.NewReader(tail)
	for {
		a, errA := behind.ReadByte()
		b, errB := copied.ReadByte()
		switch {
		case errors.Is(errA, io.EOF) && errors.Is(errB, io.EOF):
			return true, nil
		case errA != nil || errB != nil:
			return false, ignoreEnd(errors.Join(errA, errB))
		case a != b:
			return false, nil
		}
	}
}

func (r *recovery) dataPath(f facts) string {
	if f.open {
		return r.path(f.id.Name() + OpenSuffix)
	}
	return r.path(f.id.Name())
}

// do does one step.
func (r *recovery) do(s step, f facts, p proof, index *os.File) error {
	data := r.dataPath(f)
	switch s {
	case writeHeader:
		h := Header{Segment: f.id, Run: r.about.Run, Key: r.about.Key, Created: r.about.Created.UnixMicro()}
		_, err := index.WriteAt(h.Append(nil), 0)
		return err
	case copyTail:
		return r.copyTail(data, r.path(tailName(f.id)), f.keep)
	case cutData:
		return os.Truncate(data, f.keep)
	case cutIndex:
		return index.Truncate(f.indexEnd())
	case syncBoth:
		return errors.Join(syncFile(data), index.Sync())
	case dropName:
		return os.Remove(r.path(f.id.Name() + OpenSuffix))
	case giveName:
		return r.rename(data, r.path(f.id.Name()))
	case moveAll:
		return r.rename(data, r.path(tailName(f.id)))
	case removeData:
		return os.Remove(data)
	case removeIndex:
		return os.Remove(index.Name())
	}
	return nil // list: conclude does that for all together
}

func (r *recovery) rename(from, to string) error {
	if err := RenameNew(from, to); err != nil {
		return err
	}
	return SyncDir(r.dir)
}

// copyTail copies what follows an offset of the data to a file of its own, which is there whole or not at all.
func (r *recovery) copyTail(data, tail string, offset int64) (err error) {
	from, err := os.Open(data)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	temp := tail + ".tmp"
	to, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return err
	}
	if _, err = from.Seek(offset, io.SeekStart); err == nil {
		if _, err = io.Copy(to, from); err == nil {
			err = to.Sync()
		}
	}
	if err = errors.Join(err, to.Close()); err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	if err := r.point("rename the copy of the tail"); err != nil {
		return err
	}
	return r.rename(temp, tail)
}

// conclude brings the manifest up to date.
func (r *recovery) conclude() error {
	if r.manifest != nil && len(r.closed) == 0 && !slices.ContainsFunc(r.manifest.Builders, r.abandoned) {
		if !exists(tempPath(r.dir)) {
			return nil
		}
		return underLock(r.dir, func() error { return ignoreMissing(os.Remove(tempPath(r.dir))) })
	}
	return underLock(r.dir, func() error {
		m, err := r.reload()
		if err != nil {
			return err
		}
		for _, c := range r.closed {
			if b := m.Builder(c.id.Builder); !m.listed(c.id) {
				b.List(c.entry)
			}
			r.found[c.found].Listed = true
		}
		for i := range m.Builders {
			if r.abandoned(m.Builders[i]) {
				m.Builders[i].State = Recovered
			}
		}
		if err := r.point("write the manifest"); err != nil {
			return err
		}
		return store(r.dir, m)
	})
}

// abandoned says that a builder unit stands in the manifest as writing, and is not.
func (r *recovery) abandoned(b Builder) bool { return b.State == Writing && !r.live[b.Index] }

// reload reads the manifest under the lock of the run, or makes it anew. A damaged one is kept under another name.
func (r *recovery) reload() (*Manifest, error) {
	m, err := Load(r.dir)
	if err == nil {
		return m, nil
	}
	found := Found{Dir: r.dir, Name: ManifestName, What: "it did not exist, and was made anew from the indexes of the segments"}
	if !errors.Is(err, fs.ErrNotExist) {
		aside := ""
		for i := 1; ; i++ {
			aside = fmt.Sprintf("%s.damaged-%d", ManifestName, i)
			if err := r.point("move the damaged manifest aside"); err != nil {
				return nil, err
			}
			moved := r.rename(manifestPath(r.dir), r.path(aside))
			if moved == nil {
				break
			}
			if !errors.Is(moved, fs.ErrExist) {
				return nil, moved
			}
		}
		found.What = fmt.Sprintf("it was damaged (%v), and was made anew from the indexes of the segments; the damaged one is %s",
			errors.Unwrap(err), aside)
	}
	r.found = append(r.found, found)
	return newManifest(r.about), nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func sameFiles(a, b string) bool {
	x, errX := os.Lstat(a)
	y, errY := os.Lstat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// openRegular opens a file to read it. It waits for nothing, and takes nothing but files.
func openRegular(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("%s is %s, not a file", path, kindOf(st))
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func ignoreEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func syncFile(path string) error {
	f, err := openRegular(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
