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

// DefaultDir is where segments' cards are: the file system of POSIX shared memory.
const DefaultDir = "/dev/shm"

// maxName leaves space for tempMark and a random number in the 255 bytes of a file name.
const maxName = 200

// tempMark is in the middle of a card's temporary name while its segment is being made. No segment's name may contain
// it.
const tempMark = ".making-"

// Option changes a default of Create, Open and Sweep, and of the functions that use them.
type Option func(*options)

type options struct {
	dir         string
	annex       *Segment
	spareBlocks int
	blockMargin int

	lossyReader bool // of a reader: the writer does not wait for it
}

// WithDir puts the segments' cards into dir. Empty means DefaultDir. The free space of dir's file system limits their
// memory.
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

// Segment is named shared memory, mapped into this process. Its size is sealed: no process can remove any of it while
// it is mapped. Bytes may be used from any goroutine; Close must come after the last use.
type Segment struct {
	// immutable after Create or Open
	name    string
	path    string
	isOwner bool // this process made it: it holds the card's lock and removes the card
	size    int

	mu sync.Mutex
	// guarded by mu
	mem  []byte   // nil after Close
	file *os.File // of the memory
	card *os.File // the card, locked; nil if another process made the segment
}

// Create makes the segment dir/name of size bytes, all zero, readable and writable by this user only, with every page
// present: no later access can fail for lack of memory. The creator holds a lock on the card (card.go) as long as it
// lives; the kernel drops the lock however the process dies, and Sweep removes cards without a lock. The name appears
// only when all this is done.
//
// Errors are *SegmentError around errBadName, errBadSize, ErrExists, ErrNoSpace or the system's.
func Create(name string, size int, opts ...Option) (*Segment, error) {
	return create(name, size, func(*Segment) error { return nil }, opts)
}

// CreateWith is Create, and runs init on the segment before its name appears: a process that opens the segment finds
// what init wrote, and the locks that init took. If init fails, CreateWith returns its error and removes everything.
func CreateWith(name string, size int, init func(*Segment) error, opts ...Option) (*Segment, error) {
	return create(name, size, init, opts)
}

// create is CreateWith with the options as a slice.
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
		err = os.Link(f.Name(), s.path) // not rename, which would replace a file of that name
	}
	_ = os.Remove(f.Name())
	if err != nil {
		_ = s.release() // no goroutine uses it yet
		if errors.Is(err, fs.ErrExist) {
			err = existsError(s.path)
		}
		return fail(err)
	}
	return s, nil
}

// existsError returns ErrExists, with the process that made the segment if the card is readable.
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

// Open maps the segment dir/name that another process made. It refuses a file that is not a card: a plain file of this
// user with mode 0600. It finds only segments of processes that it can see in /proc.
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

// checkOwner checks that a file can be a card of this user.
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

// Bytes is the segment's memory; nil after Close. Using a slice of it after Close is a fault that ends the process, not
// an error.
func (s *Segment) Bytes() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mem
}

// Name is the name that was given to Create or Open.
func (s *Segment) Name() string { return s.name }

// Path is the path of the segment's card.
func (s *Segment) Path() string { return s.path }

// Close unmaps the memory; the creator also removes the card. A second Close does nothing.
func (s *Segment) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mem == nil {
		return nil
	}
	var errs []error
	if s.isOwner {
		// Before it drops the lock: only the holder of a card's lock may remove its name.
		if err := os.Remove(s.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(append(errs, s.release())...); err != nil {
		return &SegmentError{Op: "close", Path: s.path, Err: err}
	}
	return nil
}

// release unmaps and closes what this process has of the segment.
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
