package hostlimits

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ReadSnapshot takes a snapshot of this machine for a local address. Values that cannot be found stay zero.
func ReadSnapshot(host string) Snapshot {
	s := Snapshot{
		RmemMax:   readNumber("/proc/sys/net/core/rmem_max"),
		WmemMax:   readNumber("/proc/sys/net/core/wmem_max"),
		Cores:     runtime.NumCPU(),
		Governors: cpuGovernors(),
		Memlock:   memlockLimit(),
		Load:      loadAverage(),
	}
	s.Interface, s.MTU = InterfaceOf(net.ParseIP(host))
	s.GSO, s.GRO = udpOffloads()
	var fs unix.Statfs_t
	if unix.Statfs("/dev/shm", &fs) == nil {
		s.ShmFree = int64(fs.Bavail) * fs.Bsize
	}
	return s
}

func readNumber(file string) int64 {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64) // 0 is "not found" as well
	return n
}

func loadAverage() float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(text), " ")
	l, _ := strconv.ParseFloat(first, 64) // 0 is "not found" as well
	return l
}

func cpuGovernors() []string {
	found, _ := filepath.Glob("/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor")
	var out []string
	for _, f := range found {
		if text, err := os.ReadFile(f); err == nil {
			out = append(out, strings.TrimSpace(string(text)))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func memlockLimit() int64 {
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_MEMLOCK, &l) != nil {
		return 0
	}
	if l.Cur == unix.RLIM_INFINITY {
		return -1
	}
	return int64(l.Cur)
}

// InterfaceOf is the interface with the given address; if there are several, as for the unspecified address, the one
// with the smallest MTU.
func InterfaceOf(ip net.IP) (name string, mtu int) {
	ifaces, err := net.Interfaces()
	if err != nil {
		return "", 0
	}
	for _, i := range ifaces {
		addrs, err := i.Addrs()
		if err != nil || i.Flags&net.FlagUp == 0 {
			continue
		}
		for _, a := range addrs {
			if n, ok := a.(*net.IPNet); ok && (ip.IsUnspecified() || n.Contains(ip) && i.Flags&net.FlagLoopback != 0 ||
				n.IP.Equal(ip)) && (mtu == 0 || i.MTU < mtu) {
				name, mtu = i.Name, i.MTU
			}
		}
	}
	return name, mtu
}

// udpOffloads tests whether the kernel has UDP segmentation and aggregation, on a host with IPv4, IPv6 or both.
func udpOffloads() (gso, gro bool) {
	c, err := net.ListenUDP("udp", nil)
	if err != nil {
		return false, false
	}
	defer func() { _ = c.Close() }()
	raw, err := c.SyscallConn()
	if err != nil {
		return false, false
	}
	_ = raw.Control(func(fd uintptr) {
		gso = unix.SetsockoptInt(int(fd), unix.IPPROTO_UDP, unix.UDP_SEGMENT, 1472) == nil
		gro = unix.SetsockoptInt(int(fd), unix.IPPROTO_UDP, unix.UDP_GRO, 1) == nil
	})
	return gso, gro
}
