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

// lockTimeout is how long Open waits for another process to close the file: a control that is ending needs less.
const lockTimeout = time.Second

// magic is the value of keyMagic in bucketFormat; its last byte is the version of the layout of buckets.
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
	beforeTx    func() // called before each transaction; nil but in tests of a disk that hangs

	lastRunMu    sync.Mutex // guards what follows
	savedLastRun uint32     // the highest number that this process has written to lastRunPath

	// With locks of their own.
	writeTx, readTx boundedTx

	// Atomic.
	newestNumber atomic.Uint32                // number of the newest run
	fileDamage   atomic.Pointer[DamagedError] // bbolt failed on the file: all calls fail from then on
	log          atomic.Pointer[slog.Logger]

	reportedDamage sync.Map // DamagedError.What of the damaged values that were logged
}

// RaiseTimeout makes the time-out of each call at least d; the default is 3 s. Call it before any other method.
func (s *Store) RaiseTimeout(d time.Duration) {
	s.writeTx.timeout = max(s.writeTx.timeout, d)
	s.readTx.timeout = max(s.readTx.timeout, d)
}

// limits bound the events of a run and the audit log.
type limits struct {
	keptFirstEvents, keptLastEvents uint64 // of a run; events between them are dropped
	auditEntries                    uint64 // the newest are kept
}

// A run of many hours has some hundreds of events; the first fault is among the first of a flood, the end among the
// last. An entry of the audit log has about 150 bytes, so the log stays below 15 MB.
var defaultLimits = limits{keptFirstEvents: 4000, keptLastEvents: 1000, auditEntries: 100_000}

// Open opens the file, or makes it with its directory, for its owner alone. With an empty path the store is in memory
// and ends with the process, for single runs. The error is a lockedError if another process has the file open, a
// foreignError if the file has no run records, a DamagedError if it cannot be read.
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

// maxReaders bounds the read transactions at the same time.
const maxReaders = 8

// checkRegular refuses a path that is no regular file, before it is opened: a pipe would block.
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

// ensureFormat makes the buckets of a new file, and checks the format of an old one.
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

// SetLogger sets the log in which each damaged value is reported once; the default is slog.Default. The caller that
// reads a damaged value also gets the error.
func (s *Store) SetLogger(log *slog.Logger) { s.log.Store(log) }

// logDamaged logs a damaged value, once, and returns d.
func (s *Store) logDamaged(d *DamagedError) *DamagedError {
	if _, reported := s.reportedDamage.LoadOrStore(d.What, true); !reported {
		s.log.Load().Error("a part of the run record is damaged", "path", d.Path, "what", d.What, "why", d.Why)
	}
	return d
}

// Path is the path of the file.
func (s *Store) Path() string { return s.path }

// Close closes the file. Other calls fail from then on. If the disk does not answer, the file stays locked until the
// process ends.
func (s *Store) Close() error {
	if b := s.fileDamage.Load(); b != nil {
		return b // a transaction that panicked may hold bbolt's locks for ever; the file stays locked until the process ends
	}
	return s.writeTx.run(s.db.Close)
}

// update runs a transaction that writes. After an error the caller must not read variables that f writes (boundedTx).
func (s *Store) update(f func(*bbolt.Tx) error) error {
	return s.writeTx.run(func() error { return s.catchFaults(func() error { return s.withPath(s.db.Update(f)) }) })
}

// viewTx runs a transaction that reads, and returns its result.
func viewTx[T any](s *Store, f func(*bbolt.Tx) (T, error)) (T, error) {
	var found, none T
	err := s.readTx.run(func() error {
		return s.catchFaults(func() error {
			return s.withPath(s.db.View(func(tx *bbolt.Tx) (err error) { found, err = f(tx); return err }))
		})
	})
	if err != nil {
		return none, err // f may still run and write to found
	}
	return found, nil
}

// withPath adds the path to bbolt's error for a closed file.
func (s *Store) withPath(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, bolterrors.ErrDatabaseNotOpen):
		return fmt.Errorf("record %s: it is closed", s.path)
	}
	return err
}

// catchFaults turns panics of bbolt into a DamagedError: bbolt panics on a damaged page, and faults when it reads
// beyond the end of a truncated file, which it has mapped.
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

// syncDir syncs a directory, so that a new file in it survives a crash of the machine.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("record: %w", err)
	}
	return errors.Join(d.Sync(), d.Close())
}

// lockHolder is the id of the process that has the file locked, by /proc/locks; 0 if that does not name it.
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
