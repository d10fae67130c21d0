package node

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"ringlet/node/hostlimits"
	nodev1 "ringlet/proto/ringlet/node/v1"
)

// machine tells what the machine gives this process; s may be nil.
func (n *process) machine(s *session) *nodev1.Machine {
	m := &nodev1.Machine{
		Processors:  uint32(runtime.GOMAXPROCS(0)),
		RssBytes:    rss(),
		MemoryBytes: uint64(hostlimits.Memory()),
		Process:     uint32(os.Getpid()),
	}
	m.Host, _ = os.Hostname() // a machine without a name is one all the same
	shm, among := hostlimits.SharedMemory()
	m.ShmBytes, m.Shares = uint64(shm), among
	if s == nil || !s.cfg.WritesFiles() || !s.me.GetBuilder() {
		return m
	}
	for _, out := range s.cfg.FileOutputs() { // of several, the one with the least room
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

// rss is the resident memory of this process in bytes, or 0.
func rss() uint64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseUint(fields[1], 10, 64) // 0 is "not found" as well
	return pages * uint64(os.Getpagesize())
}
