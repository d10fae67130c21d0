package doctor

import (
	"fmt"
	"strings"
	"time"

	"ringlet/node/certs"
	"ringlet/node/hostlimits"
)

// Level is how a check came out.
type Level string

// The levels.
const (
	OK      Level = "ok"
	Warn    Level = "warn"    // a run works, and less well than it could
	Fail    Level = "fail"    // a run fails
	Skipped Level = "skipped" // it could not be found out, or was not asked
)

// Check is one thing that was looked at.
type Check struct {
	Name  string `json:"name"`
	Level Level  `json:"level"`
	Found string `json:"found"`        // a sentence
	Do    string `json:"do,omitempty"` // a sentence; empty where there is nothing to do
}

const (
	// socketBuffer is what the carriers ask the kernel for (transport/quic).
	socketBuffer = 8 << 20
	// ethernet is the packet up to which the carrier quic-go goes by the interface alone; with less on the path its
	// packets are lost.
	ethernet = 1500
	// jumbo is the packet beyond which larger ones bring nothing (docs/design/011-quic.md).
	jumbo = 9000
	// leastMTU is the smallest that QUIC works with, 1200 bytes of UDP and its headers.
	leastMTU = 1280
	// A process has about 30 files and sockets of its own and fewer than 10 for each other node.
	filesAlone, filesPerPeer = 64, 10
	// Clocks matter to people who compare logs; a tenth of a second is what they see.
	maxClockOffset = 100 * time.Millisecond
	// A run's record has some 100 kB; below the first the store cannot grow any more, below the second somebody should
	// know.
	diskFails, diskWarns = 64 << 20, 1 << 30
	// outputWarns: a node writes 1 GB/s where the disk bears it, so this is seconds.
	outputWarns = 20 << 30
)

// certificate judges one by how long it is good.
func (v *verdicts) certificate(c Certificate) {
	const do = "Make new ones: ringlet certs; processes read them while they run (docs/deploying.md)."
	name := "certificate"
	if c.Name != "" {
		name += " of " + c.Name
	}
	remaining := time.Duration(c.RemainingS * float64(time.Second))
	at := c.Ends.Format("2006-01-02 15:04")
	switch {
	case c.Err != "":
		v.add(name, Fail, "Make it: ringlet certs, or give the directory that has it.", "it cannot be read: %s", c.Err)
	case remaining <= 0:
		v.add(name, Fail, do, "it ended %s UTC: nobody takes it any more", at)
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
		Name:  name,
		Level: level,
		Found: fmt.Sprintf(format, args...),
		Do:    do,
	})
}

// Judge says what facts mean for what is wanted, in an order that is always the same.
func Judge(f Facts, w Wants) []Check {
	var v verdicts
	v.limits(f.Limits, w)
	v.memory(f, w)
	v.files(f, w)
	v.interfaces(f.Interfaces)
	v.path(f.Path)
	v.clock(f.Clock, w)
	v.remote(f.Remote, w)
	for _, c := range f.Certs {
		v.certificate(c)
	}
	for _, p := range f.Ports {
		v.port(p)
	}
	for _, p := range f.Places {
		v.place(p)
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

// limits are those of the machine that hostlimits judges; MTU, memory and what else is judged here by itself is left to
// that.
func (v *verdicts) limits(s hostlimits.Snapshot, w Wants) {
	binding := map[string]hostlimits.Finding{}
	for _, b := range hostlimits.Judge(s, hostlimits.Wants{SocketBuffer: socketBuffer, Shm: w.Shared,
		Processes: w.Nodes}) {
		binding[b.Limit] = b
	}
	limit := func(name string, known bool, binds Level, format string, args ...any) {
		b, bound := binding[name]
		switch {
		case bound:
			v.add(name, binds, b.Do, "%s", b.Wrong)
		case !known:
			v.add(name, Skipped, "", "it could not be found out")
		default:
			v.add(name, OK, "", format, args...)
		}
	}
	limit("net.core.rmem_max", s.RmemMax > 0, Warn, "the kernel gives a socket %s to receive into",
		hostlimits.Size(s.RmemMax))
	limit("net.core.wmem_max", s.WmemMax > 0, Warn, "the kernel gives a socket %s to send from",
		hostlimits.Size(s.WmemMax))
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
		memlock = hostlimits.Size(s.Memlock) + " may be locked"
	}
	v.add("memlock", OK, "", "%s; Ringlet locks none", memlock)
	switch {
	case !w.Configured:
		v.add("/dev/shm", Skipped, "Give --config to compare it with what a configuration needs.", "there are %s free",
			hostlimits.Size(s.ShmFree))
	case w.Unknown && w.Shared == 0:
		v.add("/dev/shm", Skipped, "Give slot-size in the configuration.",
			"there are %s free; what the slots for a recorded input need, only its reader knows", hostlimits.Size(s.ShmFree))
	default:
		limit("/dev/shm", true, Fail, "there are %s free, and the slots of %s need %s", hostlimits.Size(s.ShmFree),
			many(w.Nodes, "node"), hostlimits.Size(w.Shared))
	}
}

func (v *verdicts) memory(f Facts, w Wants) {
	const name = "memory"
	free := f.Available
	if f.Memory > 0 {
		free = min(free, f.Memory)
	}
	switch {
	case f.Available == 0:
		v.add(name, Skipped, "", "it could not be found out")
	case !w.Configured:
		v.add(name, Skipped, "Give --config to compare it with what a configuration needs.", "there are %s free",
			hostlimits.Size(free))
	case free < w.Memory:
		v.add(name, Fail, "Take smaller or fewer slots (slots, slot-size), a smaller packing, or more hosts.",
			"there are %s free, and %s need %s: processes would be killed", hostlimits.Size(free), many(w.Nodes, "node"),
			hostlimits.Size(w.Memory))
	default:
		v.add(name, OK, "", "there are %s free, and %s need %s", hostlimits.Size(free), many(w.Nodes, "node"),
			hostlimits.Size(w.Memory))
	}
}

func (v *verdicts) files(f Facts, w Wants) {
	const name = "open files"
	want := uint64(filesAlone + filesPerPeer*max(w.Peers, 1))
	switch {
	case f.OpenFiles == 0:
		v.add(name, Skipped, "", "it could not be found out")
	case f.OpenFiles < want:
		v.add(name, Fail, fmt.Sprintf("ulimit -n %d, or LimitNOFILE=%d in the unit.", max(want, 4096), max(want, 4096)),
			"a process may have %d files and sockets open, and a node wants up to %d", f.OpenFiles, want)
	default:
		v.add(name, OK, "", "a process may have %d files and sockets open", f.OpenFiles)
	}
}

func (v *verdicts) interfaces(all []Interface) {
	for _, i := range all {
		name := "MTU of " + i.Name
		switch {
		case i.Loopback:
		case i.MTU < leastMTU:
			v.add(name, Fail, fmt.Sprintf("ip link set %s mtu %d", i.Name, ethernet),
				"packets hold at most %d bytes, and the carriers need %d", i.MTU, leastMTU)
		case i.MTU < ethernet:
			v.add(name, Warn, fmt.Sprintf("Where the whole path bears it: ip link set %s mtu %d", i.Name, ethernet),
				"packets hold at most %d bytes, fewer than the %d of Ethernet, so there are more of them", i.MTU, ethernet)
		case i.MTU < jumbo:
			v.add(name, OK, "", "packets hold up to %d bytes; quic is faster with %d, where the whole path bears them", i.MTU,
				jumbo)
		default:
			v.add(name, OK, "", "packets hold up to %d bytes", i.MTU)
		}
	}
}

func (v *verdicts) path(p *Path) {
	if p == nil {
		v.add("path", Skipped, "Give --peer HOST to look at the way to another host of the run.", "no peer was named")
		return
	}
	name := "path to " + p.Peer
	how := "larger ones are lost without a word"
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
			probePort,
			p.InterfaceMTU-28, p.Peer),
			"%s refuses datagrams to %s in its place, so it is not known whether that host can be reached", p.RefusedBy,
			p.Address)
	case !p.Answered:
		v.add(name, Skipped, fmt.Sprintf("Let ICMP pass, or try: ping -M do -s %d %s", p.InterfaceMTU-28, p.Peer),
			"%s does not say that small datagrams arrive, so the size of packets cannot be found out", p.Address)
	case p.LargestArrived >= p.InterfaceMTU:
		v.add(name, OK, "", "packets of %d bytes arrive at %s", p.LargestArrived, where)
	case p.LargestArrived >= ethernet:
		v.add(name, Warn, fmt.Sprintf("Let the switches between pass %d bytes, or set the interface's MTU to %d.",
			p.InterfaceMTU, p.LargestArrived),
			"packets of %d bytes arrive at %s, and the interface bears %d: %s", p.LargestArrived, where, p.InterfaceMTU, how)
	default:
		v.add(name, Fail, fmt.Sprintf("Set the MTU of the interface to %d, or mend what is between.",
			max(p.LargestArrived, leastMTU)),
			"packets of %d bytes arrive at %s, and the interface bears %d: %s, and carriers would send larger ones",
			p.LargestArrived, where, p.InterfaceMTU, how)
	}
}

func (v *verdicts) clock(c *Clock, w Wants) {
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
		v.add(name, level, do, "the kernel says that nobody sets the clock right, and phases of %v end by it", w.PhaseTime)
	case !c.Synchronised:
		v.add(name, level, do, "the kernel says that nobody sets the clock right: times of hosts cannot be compared")
	default:
		v.add(name, OK, "", "it is set right, to %v at worst",
			(time.Duration(c.MaxErrorUS) * time.Microsecond).Round(time.Microsecond))
	}
}

func (v *verdicts) remote(r *Remote, w Wants) {
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

func (v *verdicts) port(p Port) {
	number, _, _ := strings.Cut(p.Name, "/")
	switch {
	case p.InUse:
		v.add("port "+p.Name, Fail, fmt.Sprintf("End what has it (ss -lptun 'sport = :%s' says who), or take another port.",
			number), "somebody has it already")
	case p.Err != "":
		v.add("port "+p.Name, Fail, "Give another with --ports, or an address of this host with --host.",
			"it cannot be had: %s", p.Err)
	default:
		v.add("port "+p.Name, OK, "", "it is free")
	}
}

func (v *verdicts) place(p Place) {
	name := p.Use + " directory"
	warns := int64(diskWarns)
	if p.Use == useOutput {
		warns = outputWarns
	}
	switch {
	case p.Path == "":
		v.add(name, Skipped, "Give --state DIR, where the control keeps its records.", "no directory was named")
	case p.Err != "":
		v.add(name, Fail, "Name another directory.", "%s", p.Err)
	case !p.Writable:
		v.add(name, Fail, "Give the user who runs Ringlet the right to write there.", "%s cannot be written by this user",
			p.Path)
	case p.Free < diskFails:
		v.add(name, Fail, "Make room, or name another directory.", "%s has %s left", p.Path, hostlimits.Size(p.Free))
	case p.Network && p.Use == useState:
		v.add(name, Warn, "Name a directory on a disk of this host: locks and syncs over a network are not to be trusted "+
			"with records.", "%s is on a network file system", p.Path)
	case p.Free < warns:
		v.add(name, Warn, "Make room before a long run.", "%s has %s left", p.Path, hostlimits.Size(p.Free))
	default:
		v.add(name, OK, "", "%s has %s left", p.Path, hostlimits.Size(p.Free))
	}
}

func many(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
