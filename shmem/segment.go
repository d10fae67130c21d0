package shmem

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// DefaultDir is where segments lie: the POSIX shared memory file system.
const DefaultDir = "/dev/shm"

// maxName keeps room for tempMark and a random number below the 255 bytes of a file name.
const maxName = 200

// tempMark is the middle of a segment's name while it is being made. A name with it is refused.
const tempMark = ".making-"

// Option changes a default of Create, Open and Sweep, and of what is built on them.
type Option func(*options)

type options struct {
	dir         string
	annex       *Segment
	spareBlocks int
	blockMargin int

	lossyReader bool // a reader: the writer does not wait for it
}

// WithDir puts the names of the segments into dir. Empty is DefaultDir. Their memory may be as much as is free in the
// file system of dir.
func WithDir(dir string) Option { return func(o *options) { o.dir = dir } }

func applyOptions(opts []Option) options {
	var o options
	for _, f := range opts {
		f(&o)
	}
	if o.dir == "" {
		o.dir = DefaultDir
	}
	return o
}

// Segment is shared memory with a name, mapped into this process. Its size is sealed: nobody can take any of it away
// while it is mapped. Bytes may be used from any goroutine; Close must come after the last use.
type Segment struct {
	// immutable after Create or Open
	name    string
	path    string
	isOwner bool // this process made it: it holds the lock and unlinks
	size    int

	mu sync.Mutex
	// guarded by mu
	mem  []byte   // nil once closed
	file *os.File // of the memory
	card *os.File // under the name, locked; nil where another process made the segment
}

// Create makes the segment dir/name of size bytes, all zero, readable and writable by this user
// only, with every page present: no later access can fail for want of memory. While the creator
// lives it holds a lock on the file of that name, its card (card.go), which the kernel drops when the process dies,
// however it dies; Sweep goes by that. The name appears only when all of this is done.
//
// Errors are *SegmentError around errBadName, errBadSize, ErrExists, ErrNoSpace or the system's.
func Create(name string, size int, opts ...Option) (*Segment, error) {
	return create(name, size, func(*Segment) error { return nil }, opts)
}

// CreateWith is Create, with init run on the segment before its name appears: whoever opens it finds what init wrote,
// and the locks that init took. An error of init's is returned, and nothing stays.
func CreateWith(name string, size int, init func(*Segment) error, opts ...Option) (*Segment, error) {
	return create(name, size, init, opts)
}

// create is CreateWith, with the options gathered.
func create(name string, size int, init func(*Segment) error, opts []Option) (*Segment, error) {
	o := applyOptions(opts)
	s := &Segment{
		name:    name,
		path:    filepath.Join(o.dir, name),
		isOwner: true,
		size:    size,
	}
	fail := func(err error) (*Segment, error) {
		return nil, &SegmentError{
			Op:   "create",
			Path: s.path,
			Size: max(size, 0),
			Err:  err,
		}
	}
	if err := checkName(name); err != nil {
		return fail(err)
	}
	if size <= 0 {
		return fail(errBadSize)
	}
	f, err := createLocked(s.path)
	if err != nil {
		return fail(err)
	}
	s.card = f
	err = s.createMemory(o.dir)
	if err == nil {
		err = init(s)
	}
	if err == nil {
		err = os.Link(f.Name(), s.path) // not rename: it refuses a name that is taken
	}
	_ = os.Remove(f.Name())
	if err != nil {
		_ = s.release() // it was not used
		if errors.Is(err, fs.ErrExist) {
			err = existsError(s.path)
		}
		return fail(err)
	}
	return s, nil
}

// existsError is ErrExists, and says which process has the name, if that can be read.
func existsError(path string) error {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return ErrExists
	}
	defer func() { _ = f.Close() }()
	if c, err := readCard(f); err == nil {
		return fmt.Errorf("%w: process %d has it", ErrExists, c.pid)
	}
	return ErrExists
}

// createMemory makes, reserves, seals, maps and prefaults the memory of a new segment, and writes its card.
func (s *Segment) createMemory(dir string) (err error) {
	if err := checkBudget(dir, s.size); err != nil {
		return err
	}
	if s.file, err = newMemory(s.name); err != nil {
		return err
	}
	if err := reserveMemory(s.file, s.size); err != nil {
		return err
	}
	if err := sealMemory(s.file); err != nil {
		return err
	}
	c, err := cardOf(s.file, s.size)
	if err != nil {
		return err
	}
	if _, err := s.card.WriteString(c.String()); err != nil {
		return spaceError(err)
	}
	mem, err := unix.Mmap(int(s.file.Fd()), 0, s.size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return spaceError(fmt.Errorf("map: %w", err))
	}
	if err := prefault(mem); err != nil {
		_ = unix.Munmap(mem)
		return spaceError(fmt.Errorf("prefault: %w", err))
	}
	s.mem = mem
	return nil
}

// Open maps the whole segment dir/name that another process made. It refuses what is not a segment's card, a plain file
// of this user with mode 0600, and finds only segments of processes that it can see in /proc.
//
// Errors are *SegmentError around errBadName, ErrNotFound, errForeignSegment or the system's.
func Open(name string, opts ...Option) (*Segment, error) {
	o := applyOptions(opts)
	s := &Segment{name: name, path: filepath.Join(o.dir, name)}
	fail := func(err error) (*Segment, error) {
		return nil, &SegmentError{Op: "open", Path: s.path, Err: err}
	}
	if err := checkName(name); err != nil {
		return fail(err)
	}
	named, err := os.OpenFile(s.path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fail(ErrNotFound)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, unix.ELOOP), errors.Is(err, unix.EISDIR):
		return fail(errForeignSegment)
	case err != nil:
		return fail(err)
	}
	c, err := readCard(named)
	_ = named.Close()
	if err != nil {
		return fail(err)
	}
	if s.file, err = c.open(); err != nil {
		return fail(err)
	}
	s.size = c.size
	s.mem, err = unix.Mmap(int(s.file.Fd()), 0, s.size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		_ = s.file.Close()
		return fail(spaceError(err))
	}
	return s, nil
}

// checkOwner says whether a file may be a card of this user.
func checkOwner(f *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || int(st.Uid) != os.Geteuid() || st.Mode&0o077 != 0 {
		return errForeignSegment
	}
	return nil
}

// Bytes is the segment's memory; nil after Close. Slices of it must not be used after Close:
// that is a fault of the process, not an error.
func (s *Segment) Bytes() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mem
}

// Name is the name given to Create or Open.
func (s *Segment) Name() string { return s.name }

// Path is the segment's card.
func (s *Segment) Path() string { return s.path }

// Close unmaps the memory; the creator also removes the file. A second Close does nothing.
func (s *Segment) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mem == nil {
		return nil
	}
	var errs []error
	if s.isOwner {
		// Before the lock goes: whoever removes the name must hold the lock of its file.
		if err := os.Remove(s.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(append(errs, s.release())...); err != nil {
		return &SegmentError{Op: "close", Path: s.path, Err: err}
	}
	return nil
}

// release gives back what there is of the segment in this process.
func (s *Segment) release() (err error) {
	if s.mem != nil {
		err = unix.Munmap(s.mem)
		s.mem = nil
	}
	for _, f := range []*os.File{s.file, s.card} {
		if f != nil {
			err = errors.Join(err, f.Close())
		}
	}
	return err
}

func checkName(name string) error {
	if name == "" || len(name) > maxName || name[0] == '.' || strings.Contains(name, tempMark) {
		return errBadName
	}
	for i := range len(name) {
		if c := name[i]; c <= ' ' || c == '/' || c >= 0x7F {
			return errBadName
		}
	}
	return nil
}
