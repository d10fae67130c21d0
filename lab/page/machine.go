package page

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"ringlet/node/hostlimits"
)

// Machine is the machine of a measurement.
type Machine struct {
	CPU       string               `json:"cpu"`
	Flags     []string             `json:"flags,omitempty"` // only those of relevantFlags
	Cores     int                  `json:"cores"`
	MemoryGB  float64              `json:"memory_gb"`
	Kernel    string               `json:"kernel"`
	Go        string               `json:"go"`
	Version   string               `json:"version"`
	Commit    string               `json:"commit,omitempty"`
	Processes int                  `json:"processes,omitempty"` // the most in one run
	Limits    []hostlimits.Finding `json:"limits,omitempty"`    // limits that slow a measurement
}

// Program is the version and commit that ran.
func (m *Machine) Program() string {
	if m.Commit == "" {
		return m.Version
	}
	return m.Version + ", commit " + m.Commit
}

// socketBufferSize is what the carriers ask the kernel for, in each direction.
const socketBufferSize = 8 << 20

// String writes on one line what figures depend on.
func (m *Machine) String() string {
	return fmt.Sprintf("%s (%s), %d cores, %s, %s", m.CPU, strings.Join(m.Flags, " "), m.Cores, m.Kernel, m.Go)
}

// ForProcesses adds the limits of the machine that slow a measurement with the given number of processes.
func (m Machine) ForProcesses(processes int) Machine {
	m.Processes = processes
	m.Limits = hostlimits.FindLimits(hostlimits.ReadSnapshot("127.0.0.1"),
		hostlimits.Requirements{SocketBuffer: socketBufferSize,
			Processes: processes})
	return m
}

// ThisMachine describes this machine. Fields that cannot be found stay empty.
func ThisMachine(version string) Machine {
	m := Machine{
		Cores:   runtime.NumCPU(),
		Go:      runtime.Version(),
		Version: version,
	}
	if f, err := os.Open("/proc/cpuinfo"); err == nil {
		m.CPU, m.Flags = processor(f)
		_ = f.Close()
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
	return m
}

// relevantFlags are the flags of a processor that decide how fast ciphers, checksums and copies are.
var relevantFlags = []string{"aes", "pclmulqdq", "sse4_2", "avx2", "avx512f", "vaes", "vpclmulqdq"}

// processor reads model and flags of the first processor.
func processor(cpuinfo io.Reader) (model string, flags []string) {
	lines := bufio.NewScanner(cpuinfo)
	for lines.Scan() && (model == "" || flags == nil) {
		key, value, _ := strings.Cut(lines.Text(), ":")
		switch strings.TrimSpace(key) {
		case "model name":
			model = strings.TrimSpace(value)
		case "flags":
			all := strings.Fields(value)
			flags = slices.DeleteFunc(slices.Clone(relevantFlags), func(f string) bool { return !slices.Contains(all, f) })
		}
	}
	return model, flags
}
