package record

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
	"golang.org/x/sys/unix"

	"ringlet/internal/safeopen"
)

// lockTimeout is how long Open waits for another process to let go of the file: a control that ends needs less, one
// that stays would keep it forever.
const lockTimeout = time.Second

// magic is the value of the key of the same name in the bucket of that name; its last byte is the version of the layout
// of buckets.
var magic = []byte("RNGLREC\x01")

// The buckets. In bucketEvents each run has a bucket of its own.
var (
	bucketFormat  = []byte("format")
	bucketRuns    = []byte("runs")
	bucketDetails = []byte("details")
	bucketEvents  = []byte("events")
	bucketAudit   = []byte("audit")
	bucketMemory  = []byte("memory")

	keyMagic = []byte("magic")
)

// Store is the file of one partition.
type Store struct {
	// Immutable after Open.
	path        string
	lastRunPath string // file of the highest number ever taken; empty in memory
	db          *bbolt.DB
	limits      limits
	beforeTx    func() // called before each transaction, by tests of a disk that hangs; nil elsewhere

	lastRunMu    sync.Mutex // guards what follows
	savedLastRun uint32     // the highest number that the file mark has, of those that this process took

	// With locks of their own.
	writeTx, readTx boundedTx

	// Atomic.
	newestNumber atomic.Uint32                // number of the newest run
	fileDamage   atomic.Pointer[DamagedError] // the file itself cannot be followed; nothing is tried any more
	log          atomic.Pointer[slog.Logger]

	reportedDamage sync.Map // of what is damaged, as a string: the log has it
}

// RaiseTimeout gives each call so long, if that is more than the 3 s that it has for the disk by itself. It is called
// before any other.
func (s *Store) RaiseTimeout(d time.Duration) {
	s.writeTx.timeout = max(s.writeTx.timeout, d)
	s.readTx.timeout = max(s.readTx.timeout, d)
}

// limits bound what grows by itself.
type limits struct {
	keptFirstEvents, keptLastEvents uint64 // of a run: these are kept, and what lies between them is not
	auditEntries                    uint64 // entries, the newest
}

// A run of many hours has some hundreds of events; the first fault is among the first of a flood, the end among the
// last. An entry of the audit log has about 150 bytes, so the log stays below 15 MB.
var defaultLimits = limits{keptFirstEvents: 4000, keptLastEvents: 1000, auditEntries: 100_000}

// Open opens the file, or makes it, with its directory, for its owner alone. Without a path the store is in memory, and
// gone with the process: for runs whose report is all that is wanted of them. The error is a lockedError if another
// process has it, a foreignError if it is something else, a DamagedError if it cannot be read.
func Open(path string) (*Store, error) {
	if path == "" {
		return openMemory()
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	if err := checkRegular(path); err != nil {
		return nil, err
	}
	s := &Store{
		path:        path,
		lastRunPath: path + lastRunSuffix,
		limits:      defaultLimits,
		writeTx:     newBoundedTx(path, 1),
		readTx:      newBoundedTx(path, maxReaders),
	}
	s.log.Store(slog.Default())
	if err := s.catchFaults(s.openFile); err != nil {
		return nil, err
	}
	if err := s.update(s.ensureFormat); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	last, err := viewTx(s, func(tx *bbolt.Tx) (uint32, error) { return newestRunNumber(tx), nil })
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.newestNumber.Store(last)
	if err := s.applyLastRun(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, syncDir(filepath.Dir(path))
}

func openMemory() (*Store, error) {
	const name = "ringlet-records"
	s := &Store{
		path:    name,
		limits:  defaultLimits,
		writeTx: newBoundedTx(name, 1),
		readTx:  newBoundedTx(name, maxReaders),
	}
	s.log.Store(slog.Default())
	db, err := bbolt.Open(name, 0o600, &bbolt.Options{NoSync: true,
		OpenFile: func(string, int, os.FileMode) (*os.File, error) {
			fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
			if err != nil {
				return nil, os.NewSyscallError("memfd_create", err)
			}
			return os.NewFile(uintptr(fd), name), nil
		}})
	if err != nil {
		return nil, fmt.Errorf("record in memory: %w", err)
	}
	s.db = db
	return s, s.update(s.ensureFormat)
}

// maxReaders may read at the same time.
const maxReaders = 8

// checkRegular refuses what is no file before it is opened: a pipe would block.
func checkRegular(path string) error {
	_, err := safeopen.StatNoFollow(path)
	var link *safeopen.SymlinkError
	var other *safeopen.NotRegularError
	switch {
	case errors.As(err, &link):
		return fmt.Errorf("record: %w", err)
	case errors.As(err, &other):
		return &foreignError{path, "this is no regular file"}
	}
	return nil
}

func (s *Store) openFile() (err error) {
	s.db, err = bbolt.Open(s.path, 0o600, &bbolt.Options{Timeout: lockTimeout, OpenFile: safeopen.OpenFileNoFollow})
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return &lockedError{Path: s.path, PID: lockHolder(s.path), Waited: lockTimeout}
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrVersionMismatch),
		errors.Is(err, bolterrors.ErrChecksum):
		return &DamagedError{s.path, "the file", err.Error()}
	case err != nil:
		return fmt.Errorf("record %s: %w", s.path, err)
	}
	return nil
}

// ensureFormat makes the buckets of a new file, and checks those of an old one.
func (s *Store) ensureFormat(tx *bbolt.Tx) error {
	if first, _ := tx.Cursor().First(); first != nil {
		b := tx.Bucket(bucketFormat)
		if b == nil {
			return &foreignError{s.path, "this is a bbolt file of something else"}
		}
		found := b.Get(keyMagic)
		if string(found) != string(magic) {
			return &foreignError{s.path, fmt.Sprintf("its layout is %q, and %q is known", found, magic)}
		}
	}
	for _, name := range [][]byte{bucketFormat, bucketRuns, bucketDetails, bucketEvents, bucketAudit, bucketMemory} {
		if _, err := tx.CreateBucketIfNotExists(name); err != nil {
			return err
		}
	}
	return tx.Bucket(bucketFormat).Put(keyMagic, magic)
}

// SetLogger names the log to which each damaged part is told, once; until then that is the default one. Who asks for a
// part gets the error as well.
func (s *Store) SetLogger(log *slog.Logger) { s.log.Store(log) }

// logDamaged tells the log what is damaged, unless it has been told.
func (s *Store) logDamaged(d *DamagedError) *DamagedError {
	if _, reported := s.reportedDamage.LoadOrStore(d.What, true); !reported {
		s.log.Load().Error("a part of the run record is damaged", "path", d.Path, "what", d.What, "why", d.Why)
	}
	return d
}

// Path is where the file is.
func (s *Store) Path() string { return s.path }

// Close ends the use of the file. Other calls fail from then on. Where the disk does not answer the file is let go
// when the process ends.
func (s *Store) Close() error {
	if b := s.fileDamage.Load(); b != nil {
		return b // a transaction that went astray may hold locks for good; the file is let go when the process ends
	}
	return s.writeTx.run(s.db.Close)
}

// update carries a transaction out that writes. What f writes to is read only where there is no error.
func (s *Store) update(f func(*bbolt.Tx) error) error {
	return s.writeTx.run(func() error { return s.catchFaults(func() error { return s.withPath(s.db.Update(f)) }) })
}

// viewTx carries a transaction out that reads something.
func viewTx[T any](s *Store, f func(*bbolt.Tx) (T, error)) (T, error) {
	var found, none T
	err := s.readTx.run(func() error {
		return s.catchFaults(func() error {
			return s.withPath(s.db.View(func(tx *bbolt.Tx) (err error) { found, err = f(tx); return err }))
		})
	})
	if err != nil {
		return none, err // f may still be at work
	}
	return found, nil
}

// withPath adds the path to errors of the file, which do not name it.
func (s *Store) withPath(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, bolterrors.ErrDatabaseNotOpen):
		return fmt.Errorf("record %s: it is closed", s.path)
	}
	return err
}

// catchFaults turns it into an error when bbolt meets pages that it did not write, or that are not there: it panics, or
// reads where the file has ended.
func (s *Store) catchFaults(f func() error) (err error) {
	if b := s.fileDamage.Load(); b != nil {
		return b
	}
	if s.beforeTx != nil {
		s.beforeTx()
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			b := &DamagedError{s.path, "the file", fmt.Sprintf("%v; move it away, and let numbers of runs begin above the last",
				r)}
			s.fileDamage.Store(b)
			err = s.logDamaged(b)
		}
	}()
	return f()
}

// syncDir makes sure that a file just made is still there after a crash of the machine.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("record: %w", err)
	}
	return errors.Join(d.Sync(), d.Close())
}

// lockHolder is the process that the kernel says has the file locked; 0 if it does not say.
func lockHolder(path string) int {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	locks, err := os.ReadFile("/proc/locks")
	if !ok || err != nil {
		return 0
	}
	for line := range strings.Lines(string(locks)) {
		// 1: FLOCK  ADVISORY  WRITE 5003 fe:00:1573 0 EOF
		f := strings.Fields(line)
		if len(f) < 6 || f[1] != "FLOCK" || !strings.HasSuffix(f[5], ":"+strconv.FormatUint(stat.Ino, 10)) {
			continue
		}
		if pid, err := strconv.Atoi(f[4]); err == nil && pid > 0 {
			return pid
		}
	}
	return 0
}
