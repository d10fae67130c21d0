package doctor

import (
	"fmt"
	"strings"
	"time"

	"ringlet/node/certs"
	"ringlet/node/hostlimits"
)

// Level is the result of a check.
type Level string

// The levels.
const (
	OK      Level = "ok"
	Warn    Level = "warn"    // a run works, but less well than it could
	Fail    Level = "fail"    // a run fails
	Skipped Level = "skipped" // it could not be found, or was not asked for
)

// Check is one check with its result.
type Check struct {
	Name   string `json:"name"`
	Level  Level  `json:"level"`
	Found  string `json:"found"`        // a sentence
	Remedy string `json:"do,omitempty"` // a sentence; empty where there is nothing to do
}

const (
	// socketBufferSize is what the carriers ask the kernel for (transport/quic).
	socketBufferSize = 8 << 20
	// ethernetMTU is the packet size that the carrier quic-go takes for granted: it goes by the interface's MTU alone. If
	// the path carries less, its packets are lost.
	ethernetMTU = 1500
	// jumboMTU is the packet size beyond which larger packets bring nothing (docs/design/011-quic.md).
	jumboMTU = 9000
	// minMTU is the smallest packet for QUIC: 1200 bytes of UDP payload and the headers.
	minMTU = 1280
	// A process has about 30 files and sockets of its own and fewer than 10 for each other node.
	baseFiles, filesPerPeer = 64, 10
	// Clocks matter to people who compare logs; they notice a tenth of a second.
	maxClockOffset = 100 * time.Millisecond
	// A run's record has some 100 kB. Below the first the store cannot grow; below the second the crew should know.
	diskFailBelow, diskWarnBelow = 64 << 20, 1 << 30
	// A node writes up to 1 GB/s, so outputWarnBelow is seconds.
	outputWarnBelow = 20 << 30
)

// judgeCertificate judges a certificate by the time until it expires.
func (v *verdicts) judgeCertificate(c Certificate) {
	const do = "Make new ones: ringlet certs; processes read them while they run (docs/deploying.md)."
	name := "certificate"
	if c.Name != "" {
		name += " of " + c.Name
	}
	remaining := time.Duration(c.RemainingS * float64(time.Second))
	at := c.NotAfter.Format("2006-01-02 15:04")
	switch {
	case c.Err != "":
		v.add(name, Fail, "Make it: ringlet certs, or give the directory that has it.", "it cannot be read: %s", c.Err)
	case remaining <= 0:
		v.add(name, Fail, do, "it ended %s UTC: every peer refuses it", at)
	case remaining < certs.ExpiryWarning:
		v.add(name, Warn, do, "it ends %s UTC, in %.1f days", at, remaining.Hours()/24)
	default:
		v.add(name, OK, "", "it ends %s UTC, in %.0f days", at, remaining.Hours()/24)
	}
}

// verdicts collects checks.
type verdicts []Check

func (v *verdicts) add(name string, level Level, do, format string, args ...any) {
	if level == OK {
		do = ""
	}
	*v = append(*v, Check{
		Name:   name,
		Level:  level,
		Found:  fmt.Sprintf(format, args...),
		Remedy: do,
	})
}

// Judge compares facts with what is wanted. The order of the checks is always the same.
func Judge(f Facts, w Wants) []Check {
	var v verdicts
	v.judgeLimits(f.Limits, w)
	v.judgeMemory(f, w)
	v.judgeOpenFiles(f, w)
	v.judgeInterfaces(f.Interfaces)
	v.judgePath(f.Path)
	v.judgeClock(f.Clock, w)
	v.judgeRemoteClock(f.RemoteClock, w)
	for _, c := range f.Certs {
		v.judgeCertificate(c)
	}
	for _, p := range f.Ports {
		v.judgePort(p)
	}
	for _, p := range f.Directories {
		v.judgeDirectory(p)
	}
	return v
}

// Worst is the worst level among checks.
func Worst(checks []Check) Level {
	worst := OK
	for _, c := range checks {
		if c.Level == Fail || c.Level == Warn && worst != Fail {
			worst = c.Level
		}
	}
	return worst
}

// judgeLimits adds the checks of hostlimits, but for those that this package makes itself, such as MTU and memory.
func (v *verdicts) judgeLimits(s hostlimits.Snapshot, w Wants) {
	binding := map[string]hostlimits.Finding{}
	for _, b := range hostlimits.FindLimits(s, hostlimits.Requirements{SocketBuffer: socketBufferSize, Shm: w.SharedMemory,
		Processes: w.LocalNodes}) {
		binding[b.Limit] = b
	}
	limit := func(name string, known bool, binds Level, format string, args ...any) {
		b, bound := binding[name]
		switch {
		case bound:
			v.add(name, binds, b.Advice, "%s", b.Problem)
		case !known:
			v.add(name, Skipped, "", "it could not be found out")
		default:
			v.add(name, OK, "", format, args...)
		}
	}
	limit("net.core.rmem_max", s.RmemMax > 0, Warn, "the kernel gives a socket %s to receive into",
		hostlimits.FormatBytes(s.RmemMax))
	limit("net.core.wmem_max", s.WmemMax > 0, Warn, "the kernel gives a socket %s to send from",
		hostlimits.FormatBytes(s.WmemMax))
	limit("UDP GSO", true, Warn, "many packets are sent by one system call")
	limit("UDP GRO", true, Warn, "many packets are received by one system call")
	limit("cores", s.Cores > 0, Warn, "there are %d", s.Cores)
	limit("load", s.Cores > 0, Warn, "%.1f processes wanted the %d cores over the last minute", s.Load, s.Cores)
	if len(s.Governors) == 0 {
		v.add("CPU governor", Skipped, "",
			"the kernel does not govern the frequency of the processors, as in most virtual machines")
	} else {
		limit("CPU governor", true, Warn, "the processors run at full frequency")
	}
	memlock := "as much memory as wanted may be locked"
	if s.Memlock >= 0 {
		memlock = hostlimits.FormatBytes(s.Memlock) + " may be locked"
	}
	v.add("memlock", OK, "", "%s; Ringlet locks none", memlock)
	switch {
	case !w.Configured:
		v.add("/dev/shm", Skipped, "Give --config to compare it with what a configuration needs.", "there are %s free",
			hostlimits.FormatBytes(s.ShmFree))
	case w.MemoryUnknown && w.SharedMemory == 0:
		v.add("/dev/shm", Skipped, "Give slot-size in the configuration.",
			"there are %s free; without slot-size the memory of the slots for a recorded input is not known",
			hostlimits.FormatBytes(s.ShmFree))
	default:
		limit("/dev/shm", true, Fail, "there are %s free, and the slots of %s need %s", hostlimits.FormatBytes(s.ShmFree),
			formatCount(w.LocalNodes, "node"), hostlimits.FormatBytes(w.SharedMemory))
	}
}

func (v *verdicts) judgeMemory(f Facts, w Wants) {
	const name = "memory"
	free := f.AvailableMemory
	if f.UsableMemory > 0 {
		free = min(free, f.UsableMemory)
	}
	switch {
	case f.AvailableMemory == 0:
		v.add(name, Skipped, "", "it could not be found out")
	case !w.Configured:
		v.add(name, Skipped, "Give --config to compare it with what a configuration needs.", "there are %s free",
			hostlimits.FormatBytes(free))
	case free < w.Memory:
		v.add(name, Fail, "Take smaller or fewer slots (slots, slot-size), a smaller packing, or more hosts.",
			"there are %s free, and %s need %s: processes would be killed", hostlimits.FormatBytes(free),
			formatCount(w.LocalNodes, "node"), hostlimits.FormatBytes(w.Memory))
	default:
		v.add(name, OK, "", "there are %s free, and %s need %s", hostlimits.FormatBytes(free),
			formatCount(w.LocalNodes, "node"), hostlimits.FormatBytes(w.Memory))
	}
}

func (v *verdicts) judgeOpenFiles(f Facts, w Wants) {
	const name = "open files"
	want := uint64(baseFiles + filesPerPeer*max(w.TotalNodes, 1))
	switch {
	case f.MaxOpenFiles == 0:
		v.add(name, Skipped, "", "it could not be found out")
	case f.MaxOpenFiles < want:
		v.add(name, Fail, fmt.Sprintf("ulimit -n %d, or LimitNOFILE=%d in the unit.", max(want, 4096), max(want, 4096)),
			"a process may have %d files and sockets open, and a node wants up to %d", f.MaxOpenFiles, want)
	default:
		v.add(name, OK, "", "a process may have %d files and sockets open", f.MaxOpenFiles)
	}
}

func (v *verdicts) judgeInterfaces(all []Interface) {
	for _, i := range all {
		name := "MTU of " + i.Name
		switch {
		case i.Loopback:
		case i.MTU < minMTU:
			v.add(name, Fail, fmt.Sprintf("ip link set %s mtu %d", i.Name, ethernetMTU),
				"packets hold at most %d bytes, and the carriers need %d", i.MTU, minMTU)
		case i.MTU < ethernetMTU:
			v.add(name, Warn, fmt.Sprintf("Where the whole path bears it: ip link set %s mtu %d", i.Name, ethernetMTU),
				"packets hold at most %d bytes, fewer than the %d of Ethernet, so there are more of them", i.MTU, ethernetMTU)
		case i.MTU < jumboMTU:
			v.add(name, OK, "", "packets hold up to %d bytes; quic is faster with %d, where the whole path bears them", i.MTU,
				jumboMTU)
		default:
			v.add(name, OK, "", "packets hold up to %d bytes", i.MTU)
		}
	}
}

func (v *verdicts) judgePath(p *Path) {
	if p == nil {
		v.add("path", Skipped, "Give --peer HOST to look at the way to another host of the run.", "no peer was named")
		return
	}
	name := "path to " + p.Peer
	how := "larger ones are lost without a word from the network"
	if p.NetworkReported {
		how = "the network says so"
	}
	where := p.Address
	if p.Routed {
		where += " (or at a router that answers for it)"
	}
	switch {
	case p.Err != "":
		v.add(name, Fail, "Look at the name, the routes and the firewall.", "%s", p.Err)
	case p.RefusedBy != "":
		v.add(name, Skipped, fmt.Sprintf("Have %s let UDP to port %d pass, or try: ping -M do -s %d %s", p.RefusedBy,
			probePort, p.InterfaceMTU-28, p.Peer),
			"%s refuses datagrams to %s in its place, so it is not known whether that host can be reached", p.RefusedBy,
			p.Address)
	case !p.Answered:
		v.add(name, Skipped, fmt.Sprintf("Let ICMP pass, or try: ping -M do -s %d %s", p.InterfaceMTU-28, p.Peer),
			"%s does not say that small datagrams arrive, so the size of packets cannot be found out", p.Address)
	case p.LargestArrived >= p.InterfaceMTU:
		v.add(name, OK, "", "packets of %d bytes arrive at %s", p.LargestArrived, where)
	case p.LargestArrived >= ethernetMTU:
		v.add(name, Warn, fmt.Sprintf("Let the switches between pass %d bytes, or set the interface's MTU to %d.",
			p.InterfaceMTU, p.LargestArrived),
			"packets of %d bytes arrive at %s, and the interface bears %d: %s", p.LargestArrived, where, p.InterfaceMTU, how)
	default:
		v.add(name, Fail, fmt.Sprintf("Set the MTU of the interface to %d, or mend the network between.",
			max(p.LargestArrived, minMTU)),
			"packets of %d bytes arrive at %s, and the interface bears %d: %s, and carriers would send larger ones",
			p.LargestArrived, where, p.InterfaceMTU, how)
	}
}

func (v *verdicts) judgeClock(c *Clock, w Wants) {
	const name = "clock"
	const do = "Run chronyd, or another NTP client: timedatectl set-ntp true"
	level := Warn
	if w.PhaseTime > 0 {
		level = Fail
	}
	switch {
	case c == nil:
		v.add(name, Skipped, "", "it could not be found out")
	case !c.Synchronised && w.PhaseTime > 0:
		v.add(name, level, do, "the kernel says that its clock is not synchronised, and phases of %v end by it", w.PhaseTime)
	case !c.Synchronised:
		v.add(name, level, do, "the kernel says that its clock is not synchronised: times of hosts cannot be compared")
	default:
		v.add(name, OK, "", "it is synchronised, to %v at worst",
			(time.Duration(c.MaxErrorUS) * time.Microsecond).Round(time.Microsecond))
	}
}

func (v *verdicts) judgeRemoteClock(r *RemoteClock, w Wants) {
	if r == nil {
		v.add("clock of the control", Skipped, "Give --clock URL to compare it, e.g. http://HOST:PORT/livez.",
			"no address was given")
		return
	}
	name := "clock of " + r.URL
	offset, by := time.Duration(r.OffsetUS)*time.Microsecond, time.Duration(r.UncertaintyUS)*time.Microsecond
	surely := max(offset.Abs()-by, 0)
	side := "ahead of"
	if offset < 0 {
		side = "behind"
	}
	said := fmt.Sprintf("it is %v %s this host's, give or take %v", offset.Abs().Round(time.Millisecond), side,
		by.Round(time.Millisecond))
	const do = "Have both hosts set by the same NTP servers."
	switch {
	case r.Err != "":
		v.add(name, Skipped, "", "%s", r.Err)
	case w.PhaseTime > 0 && surely > w.PhaseTime/10:
		v.add(name, Fail, do, "%s, and phases of %v end by the clocks", said, w.PhaseTime)
	case surely > maxClockOffset:
		v.add(name, Warn, do, "%s: times of logs and of the timeline cannot be compared", said)
	default:
		v.add(name, OK, "", "%s", said)
	}
}

func (v *verdicts) judgePort(p Port) {
	number, _, _ := strings.Cut(p.Name, "/")
	switch {
	case p.InUse:
		v.add("port "+p.Name, Fail, fmt.Sprintf("End the process on it (ss -lptun 'sport = :%s'), or give another port.",
			number), "another process has it")
	case p.Err != "":
		v.add("port "+p.Name, Fail, "Give another with --ports, or an address of this host with --host.",
			"it cannot be bound: %s", p.Err)
	default:
		v.add("port "+p.Name, OK, "", "it is free")
	}
}

func (v *verdicts) judgeDirectory(p Directory) {
	name := p.Use + " directory"
	warns := int64(diskWarnBelow)
	if p.Use == useOutput {
		warns = outputWarnBelow
	}
	switch {
	case p.Path == "":
		v.add(name, Skipped, "Give --state DIR, where the control keeps its records.", "no directory was named")
	case p.Err != "":
		v.add(name, Fail, "Name another directory.", "%s", p.Err)
	case !p.Writable:
		v.add(name, Fail, "Give the user who runs Ringlet the right to write there.", "%s cannot be written by this user",
			p.Path)
	case p.Free < diskFailBelow:
		v.add(name, Fail, "Make room, or name another directory.", "%s has %s left", p.Path, hostlimits.FormatBytes(p.Free))
	case p.NetworkFS && p.Use == useState:
		v.add(name, Warn, "Name a directory on a disk of this host: locks and syncs over a network are not to be trusted "+
			"with records.", "%s is on a network file system", p.Path)
	case p.Free < warns:
		v.add(name, Warn, "Make room before a long run.", "%s has %s left", p.Path, hostlimits.FormatBytes(p.Free))
	default:
		v.add(name, OK, "", "%s has %s left", p.Path, hostlimits.FormatBytes(p.Free))
	}
}

func formatCount(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
