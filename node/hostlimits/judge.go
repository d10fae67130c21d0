package hostlimits

import (
	"fmt"
	"slices"
)

// Snapshot is the limits of a machine, as ReadSnapshot found them. A value that could not be found is zero.
type Snapshot struct {
	RmemMax   int64    `json:"rmem_max"` // net.core.rmem_max, bytes
	WmemMax   int64    `json:"wmem_max"` // net.core.wmem_max, bytes
	Interface string   `json:"interface"`
	MTU       int      `json:"mtu"`
	GSO       bool     `json:"udp_gso"`   // the kernel accepts UDP_SEGMENT
	GRO       bool     `json:"udp_gro"`   // the kernel accepts UDP_GRO
	Governors []string `json:"governors"` // of the processors, each once
	Cores     int      `json:"cores"`     // usable by this process
	Load      float64  `json:"load"`      // processes that wanted a core, over the last minute; 0 is none
	ShmFree   int64    `json:"shm_free"`  // bytes left in /dev/shm
	Memlock   int64    `json:"memlock"`   // bytes that may be locked; -1 is no limit
}

// Requirements is what a run needs. Zero means that it does not matter.
type Requirements struct {
	SocketBuffer int64 // bytes, in each direction
	Shm          int64 // bytes of shared memory
	Processes    int   // busy at a time on this machine
	Memlock      int64 // bytes
}

// Finding is one limit that binds.
type Finding struct {
	Limit   string `json:"limit"`
	Problem string `json:"wrong"` // a sentence
	Advice  string `json:"do"`    // a sentence
}

// jumboMTU is the MTU from which larger packets gain little.
const jumboMTU = 9000

// tolerableLoad is the share of the cores that other processes may use without a finding.
const tolerableLoad = 0.25

// FindLimits returns the limits of a machine that bind, the worst first.
func FindLimits(s Snapshot, w Requirements) []Finding {
	var out []Finding
	add := func(binds bool, limit, wrong, do string) {
		if binds {
			out = append(out, Finding{limit, wrong, do})
		}
	}
	add(w.Shm > 0 && s.ShmFree < w.Shm, "/dev/shm",
		fmt.Sprintf("/dev/shm has room for %s and %s are wanted", FormatBytes(s.ShmFree), FormatBytes(w.Shm)),
		"Make it larger (mount -o remount,size=… /dev/shm; in a container, --shm-size), or ask for less memory.")
	add(!s.GSO, "UDP GSO", "the kernel does not take UDP_SEGMENT, so each packet sent is a system call of its own",
		"Use Linux 4.18 or newer.")
	add(!s.GRO, "UDP GRO", "the kernel does not take UDP_GRO, so each packet received is a system call of its own",
		"Use Linux 5.0 or newer.")
	add(s.Cores > 0 && w.Processes > s.Cores, "cores",
		fmt.Sprintf("%d busy processes share %d cores, so they take turns", w.Processes, s.Cores),
		"Read the ratios, not the absolute figures, or use a machine with more cores.")
	add(s.Cores > 0 && s.Load > tolerableLoad*float64(s.Cores), "load",
		fmt.Sprintf("over the last minute %.1f processes wanted the %d cores, before this one began", s.Load, s.Cores),
		"Wait until the machine is quiet, or read the ratios, not the absolute figures.")
	add(s.RmemMax > 0 && s.RmemMax < w.SocketBuffer, "net.core.rmem_max",
		fmt.Sprintf("the kernel gives a socket %s to receive into, %s are wanted: bursts may be lost and are then sent again",
			FormatBytes(s.RmemMax), FormatBytes(w.SocketBuffer)),
		fmt.Sprintf("sysctl -w net.core.rmem_max=%d", w.SocketBuffer))
	add(s.WmemMax > 0 && s.WmemMax < w.SocketBuffer, "net.core.wmem_max",
		fmt.Sprintf("the kernel gives a socket %s to send from, %s are wanted: the sender may wait for it",
			FormatBytes(s.WmemMax), FormatBytes(w.SocketBuffer)),
		fmt.Sprintf("sysctl -w net.core.wmem_max=%d", w.SocketBuffer))
	add(s.MTU > 0 && s.MTU < jumboMTU, "MTU",
		fmt.Sprintf("packets on %s hold at most %d bytes, so there are many of them", s.Interface, s.MTU),
		fmt.Sprintf("Where the whole path bears it: ip link set %s mtu %d", s.Interface, jumboMTU))
	slow := slices.DeleteFunc(slices.Clone(s.Governors), func(g string) bool { return g == "performance" })
	add(len(slow) > 0, "CPU governor",
		fmt.Sprintf("the processors' frequency is left to %q, so it changes under load", slow),
		"cpupower frequency-set -g performance")
	add(w.Memlock > 0 && s.Memlock >= 0 && s.Memlock < w.Memlock, "memlock",
		fmt.Sprintf("%s of memory may be locked and %s are wanted", FormatBytes(s.Memlock), FormatBytes(w.Memlock)),
		"ulimit -l unlimited, or LimitMEMLOCK=infinity in the unit.")
	return out
}

// FormatBytes formats a number of bytes for people.
func FormatBytes(n int64) string {
	switch {
	case n >= 1<<40:
		return fmt.Sprintf("%.1f TiB", float64(n)/(1<<40))
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
}
