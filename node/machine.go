package node

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"ringlet/node/hostlimits"
	nodev1 "ringlet/proto/ringlet/node/v1"
)

// machineReport reports the machine's resources for this process; s may be nil.
func (n *process) machineReport(s *session) *nodev1.Machine {
	limits := n.limits.get()
	m := &nodev1.Machine{
		Host:        limits.hostname,
		Processors:  uint32(runtime.GOMAXPROCS(0)),
		RssBytes:    residentBytes(),
		MemoryBytes: limits.memoryBytes,
		ShmBytes:    limits.shmBytes,
		Shares:      limits.shmSharingID,
		Process:     uint32(os.Getpid()),
	}
	if s == nil || !s.cfg.WritesFiles() || !s.self.GetBuilder() {
		return m
	}
	for _, out := range s.cfg.FileOutputs() { // of several outputs, the one with the least space
		var fs unix.Statfs_t
		dir := OutputDir(out)
		if unix.Statfs(dir, &fs) != nil && unix.Statfs(filepath.Dir(dir), &fs) != nil {
			continue
		}
		if free := fs.Bavail * uint64(fs.Bsize); m.DiskBytes == 0 || free < m.DiskFreeBytes {
			m.DiskBytes, m.DiskFreeBytes = fs.Blocks*uint64(fs.Bsize), free
		}
	}
	return m
}

// limitsMaxAge is how old the limits in a report may be. They are in a dozen files, which the node would otherwise open
// for each report, twice a second; they change when a container gets other limits.
const limitsMaxAge = 10 * time.Second

// limits are the figures of a machine that hardly ever change.
type limits struct {
	hostname     string
	memoryBytes  uint64 // bytes that this process may use
	shmBytes     uint64 // bytes of /dev/shm
	shmSharingID string // see hostlimits.SharedMemory
}

// limitsCache keeps the limits that were read last.
type limitsCache struct {
	mu     sync.Mutex // guards those below
	last   limits
	readAt time.Time // zero: never
}

// get returns the limits, and reads them again if they are older than limitsMaxAge.
func (l *limitsCache) get() limits {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.readAt.IsZero() || time.Since(l.readAt) > limitsMaxAge {
		shm, shares := hostlimits.SharedMemory()
		l.last = limits{memoryBytes: uint64(hostlimits.MemoryLimit()), shmBytes: uint64(shm), shmSharingID: shares}
		l.last.hostname, _ = os.Hostname() // the name may be empty
		l.readAt = time.Now()
	}
	return l.last
}

// statmFile is the file with the sizes of this process's memory. It stays open, since it is read for each report.
var statmFile = sync.OnceValue(func() *os.File {
	f, err := os.Open("/proc/self/statm")
	if err != nil {
		return nil // ReadAt on nil fails
	}
	return f
})

// residentBytes is the resident memory of this process in bytes, or 0.
func residentBytes() uint64 {
	var text [128]byte
	n, _ := statmFile().ReadAt(text[:], 0) // io.EOF
	fields := strings.Fields(string(text[:n]))
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseUint(fields[1], 10, 64) // 0 means "not found" as well
	return pages * uint64(os.Getpagesize())
}
