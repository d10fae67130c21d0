package hostlimits

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// SharedMemory is the size of /dev/shm in bytes, and a word that is equal in processes that share it and the rest of
// their memory: processes of one machine, outside of containers or in the same one. Zero values if they are not known.
func SharedMemory() (size int64, among string) {
	var at unix.Stat_t
	var fs unix.Statfs_t
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil || unix.Stat("/dev/shm", &at) != nil || unix.Statfs("/dev/shm", &fs) != nil {
		return 0, ""
	}
	return int64(fs.Blocks) * fs.Bsize, fmt.Sprintf("%s/%d/%d", strings.TrimSpace(string(boot)), at.Dev, MemoryLimit())
}
