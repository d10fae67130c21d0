package sweep

import (
	"bufio"
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	"golang.org/x/sys/unix"

	"ringlet/node/hostlimits"
)

// machine is what a sweep ran on.
type machine struct {
	CPU       string               `json:"cpu"`
	Cores     int                  `json:"cores"`
	MemoryGB  float64              `json:"memory_gb"`
	Kernel    string               `json:"kernel"`
	Go        string               `json:"go"`
	Version   string               `json:"version"`
	Commit    string               `json:"commit,omitempty"`
	Processes int                  `json:"processes"` // the most that a run has
	Limits    []hostlimits.Finding `json:"limits"`    // what binds
}

// program is what ran there.
func (m *machine) program() string {
	if m.Commit == "" {
		return m.Version
	}
	return m.Version + ", commit " + m.Commit
}

// socketBuffer is what the carriers ask the kernel for, in each direction.
const socketBuffer = 8 << 20

// thisMachine looks at where it runs. What cannot be found out stays empty.
func thisMachine(version string, processes int) machine {
	m := machine{
		Cores:     runtime.NumCPU(),
		Go:        runtime.Version(),
		Version:   version,
		Processes: processes,
		CPU:       cpuModel(),
	}
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		m.Kernel = unix.ByteSliceToString(name.Sysname[:]) + " " + unix.ByteSliceToString(name.Release[:])
	}
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		m.MemoryGB = float64(info.Totalram) * float64(info.Unit) / 1e9
	}
	if built, ok := debug.ReadBuildInfo(); ok {
		for _, s := range built.Settings {
			switch {
			case s.Key == "vcs.revision":
				m.Commit = s.Value[:min(12, len(s.Value))] + m.Commit
			case s.Key == "vcs.modified" && s.Value == "true":
				m.Commit += " modified"
			}
		}
	}
	m.Limits = hostlimits.Judge(hostlimits.Read("127.0.0.1"), hostlimits.Wants{SocketBuffer: socketBuffer,
		Processes: processes})
	return m
}

func cpuModel() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if key, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
