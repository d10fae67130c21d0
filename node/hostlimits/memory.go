package hostlimits

import (
	"bufio"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// MemoryLimit is how many bytes of memory this process may use: the memory of the machine, or less if a control group
// limits it. 0 if it is not known.
func MemoryLimit() int64 {
	most := totalMemory("/proc/meminfo")
	cgroups, _ := os.ReadFile("/proc/self/cgroup")
	return smallestLimit(most, groupLimits(string(cgroups), "memory", "memory.max", "memory.limit_in_bytes"))
}

// TaskLimit is how many processes and threads there may be on this machine: as many as the kernel has numbers for, or
// fewer if a control group limits them. 0 if it is not known.
func TaskLimit() int64 {
	cgroups, _ := os.ReadFile("/proc/self/cgroup")
	files := groupLimits(string(cgroups), "pids", "pids.max", "pids.max")
	return smallestLimit(readNumber("/proc/sys/kernel/threads-max"), append(files, "/proc/sys/kernel/pid_max"))
}

// smallestLimit is the smallest of a limit and the limits in files; 0 is none.
func smallestLimit(most int64, files []string) int64 {
	for _, file := range files {
		if limit := readNumber(file); limit > 0 && (most == 0 || limit < most) {
			most = limit
		}
	}
	return most
}

// totalMemory reads the memory of the machine.
func totalMemory(meminfo string) int64 {
	f, err := os.Open(meminfo)
	if err != nil {
		return 0
	}
	defer func() { _ = f.Close() }()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) == 3 && fields[0] == "MemTotal:" {
			kB, _ := strconv.ParseInt(fields[1], 10, 64) // 0 is "not found" as well
			return kB << 10
		}
	}
	return 0
}

// groupLimits names the files with the limits of a process's control groups and the groups above them, given its
// /proc/self/cgroup, a controller, and the file's name in the second and the first version. In a container its own
// group is the root that it sees.
func groupLimits(cgroups, controller, second, first string) []string {
	var out []string
	for line := range strings.Lines(cgroups) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		var root, file string
		switch {
		case fields[1] == "": // the second version has one tree, without a controller's name
			root, file = "/sys/fs/cgroup", second
		case strings.Contains(","+fields[1]+",", ","+controller+","):
			root, file = "/sys/fs/cgroup/"+controller, first
		default:
			continue
		}
		for dir := filepath.Join("/", fields[2]); ; dir = filepath.Dir(dir) {
			out = append(out, filepath.Join(root, dir, file))
			if dir == "/" {
				break
			}
		}
	}
	return out
}
