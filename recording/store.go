package recording

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"ringlet/internal/safeopen"
)

// maxManifest bounds how much of a run.json is read: 64 MiB list some 200,000 segments.
const maxManifest = 64 << 20

// A damagedError says that a manifest is missing, or cannot be used. Recover rebuilds it.
type damagedError struct {
	Path  string
	What  string
	Cause error // may be nil
}

func (e *damagedError) Error() string {
	return fmt.Sprintf("%s cannot be used: %s: 'ringlet recover %s' rebuilds it from the indexes of the segments",
		e.Path, e.What, filepath.Dir(e.Path))
}

// Unwrap returns the cause: fs.ErrNotExist if there is no manifest.
func (e *damagedError) Unwrap() error { return e.Cause }

// Load reads the manifest of a run. The error is a *damagedError if it is missing or no manifest.
func Load(runDir string) (*Manifest, error) {
	path := manifestPath(runDir)
	data, err := readBounded(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, &damagedError{Path: path, What: "it does not exist", Cause: err}
	case err != nil:
		return nil, err
	}
	m, err := parseManifest(data)
	if err != nil {
		return nil, &damagedError{Path: path, What: err.Error(), Cause: err}
	}
	return m, nil
}

// readBounded reads a file, but no more of it than a manifest may have.
func readBounded(path string) ([]byte, error) {
	f, err := safeopen.OpenNoFollow(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	return io.ReadAll(io.LimitReader(f, maxManifest+1))
}

// parseManifest parses a manifest and checks that it can be used. The error says what is wrong with it.
func parseManifest(data []byte) (*Manifest, error) {
	if len(data) == 0 {
		return nil, errors.New("it is empty")
	}
	if len(data) > maxManifest {
		return nil, fmt.Errorf("it is larger than %d bytes", maxManifest)
	}
	unread := NewKey()
	m := &Manifest{Key: unread}
	if err := json.Unmarshal(data, m); err != nil {
		return nil, fmt.Errorf("it is not the JSON of a manifest: %w", err)
	}
	if m.Key == unread {
		return nil, errors.New("it has no key of a run")
	}
	if err := m.check(); err != nil {
		return nil, err
	}
	return m, nil
}

// check says which fields of m contradict each other.
func (m *Manifest) check() error {
	if m.Version != manifestVersion {
		return fmt.Errorf("it is of version %d, this program knows version %d", m.Version, manifestVersion)
	}
	if !m.Format.Valid() {
		return fmt.Errorf("%v is not a format of segments", m.Format)
	}
	for i := range m.Builders {
		b := &m.Builders[i]
		if b.Index < 0 || i > 0 && m.Builders[i-1].Index >= b.Index {
			return fmt.Errorf("its builder units are not in order of index at place %d", i)
		}
		for j := range b.Segments {
			if err := b.Segments[j].check(b.Index, m.Format); err != nil {
				return err
			}
			if j > 0 && b.Segments[j-1].Number >= b.Segments[j].Number {
				return fmt.Errorf("the segments of builder unit %d are not in order at %q", b.Index, b.Segments[j].Name)
			}
		}
	}
	return nil
}

func (s *Segment) check(builder int, format Format) error {
	id, open, ok := ParseSegment(s.Name)
	if !ok || open || id != (SegmentID{Builder: builder, Number: s.Number, Format: format}) {
		return fmt.Errorf("%q is not the name of segment %d of builder unit %d as %v", s.Name, s.Number, builder, format)
	}
	if b, err := hex.DecodeString(s.CRC); err != nil || len(b) != 4 || s.Bytes < 0 || s.TailBytes < 0 {
		return fmt.Errorf("the checksum %q, the %d bytes or the %d bytes of tail of segment %q make no sense", s.CRC, s.Bytes,
			s.TailBytes, s.Name)
	}
	return nil
}

// UpdateManifest changes the manifest of a run: under the lock of the run it reads, changes and replaces the manifest.
func UpdateManifest(runDir string, change func(*Manifest) error) error {
	return withRunLock(runDir, func() error {
		m, err := Load(runDir)
		if err != nil {
			return err
		}
		if err := change(m); err != nil {
			return err
		}
		return storeManifest(runDir, m)
	})
}

// storeManifest replaces the manifest. The caller holds the lock of the run, so that the temporary file has one
// writer; what a killed process left of that file is overwritten.
func storeManifest(runDir string, m *Manifest) error {
	if err := m.check(); err != nil {
		return fmt.Errorf("%s is not written: %w", manifestPath(runDir), err)
	}
	data, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	data = append(data, '\n')
	err = replaceFile(manifestPath(runDir), data)
	switch {
	case isDiskFull(err):
		return replaceFromReserve(runDir, data, err) // the rest of the reserve stays: a verdict may be written twice
	case err != nil:
		return err
	case m.Verdict != nil:
		return removeFile(reservePath(runDir))
	case pathExists(reservePath(runDir)):
		_ = reserveManifest(runDir, len(data)) // without a reserve the next write may still find room
	}
	return nil
}

// tempSuffix follows the name of a file that is not complete, which only one process makes.
const tempSuffix = ".tmp"

func tempPath(runDir string) string { return manifestPath(runDir) + tempSuffix }

// replaceFile writes a small file completely and flushes it to the disk, or leaves the old one.
func replaceFile(path string, data []byte) error {
	err := safeopen.WriteNoFollow(path+tempSuffix, bytes.NewReader(data), 0o666)
	if err == nil {
		err = os.Rename(path+tempSuffix, path)
	}
	if err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// syncFile flushes the data of a file to the disk.
func syncFile(path string) error {
	f, err := safeopen.OpenNoFollow(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// removeFile removes a file if it is there.
func removeFile(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func pathExists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// SyncDir flushes a directory to the disk: names that were made, renamed or removed in it.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Builder returns the entry of a builder unit, which it inserts if it is not there. The pointer is valid until the
// next call.
func (m *Manifest) Builder(index int) *Builder {
	at, there := slices.BinarySearchFunc(m.Builders, index, func(b Builder, i int) int { return cmp.Compare(b.Index, i) })
	if !there {
		m.Builders = slices.Insert(m.Builders, at, Builder{Index: index, State: StateWriting, Segments: []Segment{}})
	}
	return &m.Builders[at]
}

// AddSegment inserts a closed segment, or replaces the one of that number.
func (b *Builder) AddSegment(s Segment) {
	at, there := slices.BinarySearchFunc(b.Segments, s, func(a, b Segment) int { return cmp.Compare(a.Number, b.Number) })
	if there {
		b.Segments[at] = s
	} else {
		b.Segments = slices.Insert(b.Segments, at, s)
	}
}

// HasSegment says whether the segment is in the manifest.
func (m *Manifest) HasSegment(id SegmentID) bool {
	for s := range m.AllSegments {
		if s.Name == id.Name() {
			return true
		}
	}
	return false
}

func (k Key) String() string { return hex.EncodeToString(k[:]) }

// MarshalText is String.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText is ParseKey.
func (k *Key) UnmarshalText(b []byte) (err error) {
	*k, err = ParseKey(string(b))
	return err
}

// ParseKey parses the result of String.
func ParseKey(s string) (k Key, err error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(k) {
		return k, fmt.Errorf("%q is not the key of a run: that has %d hexadecimal digits", s, 2*len(k))
	}
	return Key(b), nil
}

// NewKey returns a random key.
func NewKey() (k Key) {
	_, _ = rand.Read(k[:]) // it does not fail
	return k
}

// RenameNoReplace renames a file to a free name, and never replaces a file: the error is then fs.ErrExist.
func RenameNoReplace(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) { // the file system has no such renaming
		if err := os.Link(from, to); err != nil {
			return err
		}
		return os.Remove(from)
	}
	if err != nil {
		return &os.LinkError{
			Op:  "rename",
			Old: from,
			New: to,
			Err: err,
		}
	}
	return nil
}
