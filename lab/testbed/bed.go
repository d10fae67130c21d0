package testbed

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"ringlet/internal/netns"
)

// CheckPossible says in a sentence why there can be no test bed here, or nil.
func CheckPossible() error {
	if runtime.GOOS != "linux" {
		return errors.New("a test bed needs Linux: it is made of network namespaces")
	}
	if os.Geteuid() != 0 {
		return errors.New("a test bed needs root: it is made of network namespaces")
	}
	for _, program := range []string{"ip", "tc", "bridge"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("a test bed needs the program %s, of iproute2: %w", program, err)
		}
	}
	return nil
}

// controlHost is the host of the control, whose port has no limit: what a run says to its control is not what is
// measured.
const controlHost = "control"

// A Bed is a switch and its hosts.
type Bed struct {
	// immutable after New or Attach
	spec      Spec
	switchNS  *netns.Namespace
	hostNS    []*netns.Namespace
	controlNS *netns.Namespace
}

// New makes a bed. The Spec is complete.
func New(spec Spec) (*Bed, error) {
	if err := CheckPossible(); err != nil {
		return nil, err
	}
	b := &Bed{spec: spec}
	if err := b.build(); err != nil {
		return nil, errors.Join(fmt.Errorf("the test bed could not be made: %w", err), b.Close())
	}
	return b, nil
}

// Spec says what the bed is.
func (b *Bed) Spec() Spec { return b.spec }

// Enter puts the calling thread on a host, by its name, or on that of the control. The caller has locked its goroutine
// to it for good.
func (b *Bed) Enter(host string) error {
	if host == controlHost {
		return b.controlNS.Enter()
	}
	i, ok := hostIndex(host)
	if !ok || i >= len(b.hostNS) {
		return &hostError{host, len(b.hostNS)}
	}
	return b.hostNS[i].Enter()
}

// Close gives the bed up; it ends with the last process in it. There may be no bed.
func (b *Bed) Close() error {
	if b == nil {
		return nil
	}
	var errs []error
	for _, n := range b.namespaces() {
		if n != nil {
			errs = append(errs, n.Close())
		}
	}
	return errors.Join(errs...)
}

// namespaces lists the namespaces: switch, control, hosts.
func (b *Bed) namespaces() []*netns.Namespace {
	return append([]*netns.Namespace{b.switchNS, b.controlNS}, b.hostNS...)
}

// build makes the switch first, then each host with its cable.
func (b *Bed) build() (err error) {
	if b.switchNS, err = netns.New(); err != nil {
		return err
	}
	if err := silenceNamespace(b.switchNS); err != nil {
		return err
	}
	// Without spanning tree and multicast snooping a bridge says nothing by itself, and a port forwards from the moment it
	// is up.
	if err := b.ip(b.switchNS, "link add name br0 type bridge forward_delay 0 mcast_snooping 0",
		"link set dev br0 up"); err != nil {
		return err
	}
	for i := range b.spec.Hosts {
		n, err := b.addHost(hostName(i), b.Address(i), macAddress(i))
		if err != nil {
			return err
		}
		b.hostNS = append(b.hostNS, n)
		if err := b.setLimit(i, b.spec.rate(i), "add"); err != nil {
			return err
		}
	}
	if b.controlNS, err = b.addHost(controlHost, b.ControlAddress(), macAddress(maxHosts)); err != nil {
		return err
	}
	return b.addNeighbours()
}

// addNeighbours tells every host where all others are, so that nobody need ask. What the kernel learns by asking it
// forgets, and it keeps 1024 neighbours at most, in all namespaces together: the 32nd host would not be found by all.
// And a question lost in a full queue costs a second.
func (b *Bed) addNeighbours() error {
	var all []string
	for i := range b.hostNS {
		all = append(all, fmt.Sprintf("neigh replace %s lladdr %s dev eth0 nud permanent", b.Address(i), macAddress(i)))
	}
	all = append(all, fmt.Sprintf("neigh replace %s lladdr %s dev eth0 nud permanent", b.ControlAddress(),
		macAddress(maxHosts)))
	for _, n := range append([]*netns.Namespace{b.controlNS}, b.hostNS...) {
		if err := b.ip(n, all...); err != nil {
			return err
		}
	}
	return nil
}

// macAddress is the address of a host's interface.
func macAddress(host int) string { return fmt.Sprintf("02:00:00:00:00:%02x", host) }

// silenceNamespace keeps a namespace from speaking by itself: IPv6 would look for neighbours and routers, and be
// counted.
func silenceNamespace(n *netns.Namespace) error {
	return n.Do(func() error {
		err := os.WriteFile("/proc/sys/net/ipv6/conf/all/disable_ipv6", []byte("1"), 0)
		if errors.Is(err, os.ErrNotExist) {
			return nil // a kernel without IPv6
		}
		return err
	})
}

// addHost makes a host and its cable to the switch, where the port has the name of the host. One GSO segment to a
// batch: what a sender hands over as a batch of 64 KiB is cut into packets before it leaves the host, as by a real
// interface, so that the switch queues and drops packets.
func (b *Bed) addHost(name, addr, mac string) (*netns.Namespace, error) {
	n, err := netns.New()
	if err != nil {
		return nil, err
	}
	err = silenceNamespace(n)
	if err == nil {
		err = b.ip(b.switchNS,
			fmt.Sprintf("link add name %s mtu %d gso_max_segs 1 type veth peer name eth0 address %s netns %s mtu %[2]d "+
				"gso_max_segs 1",
				name, b.spec.MTU, mac, n.Path()),
			fmt.Sprintf("link set dev %s master br0 up", name))
	}
	if err == nil {
		err = batch(b.switchNS, "bridge", []string{fmt.Sprintf("fdb replace %s dev %s master static", mac, name)})
	}
	if err == nil {
		err = b.ip(n, fmt.Sprintf("addr add %s/24 dev eth0", addr),
			fmt.Sprintf("link set dev eth0 gso_max_segs 1 txqueuelen %d up", hostQueuePackets))
	}
	if err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

// Sizes of buckets and queues.
const (
	// gsoBatch is a sender's largest batch of UDP packets with all headers. As long as the host's bucket holds it, it
	// leaves by one timer; else it is cut beforehand, and each packet takes a timer of its own, which on a virtual machine
	// is dear: with 8 hosts of 200 Mbit/s a run built 0.44 Gbit/s with buckets of 6 and 12 kB, and 0.8 with these, for
	// half the processor time per byte (2026-11-21).
	gsoBatch = 68 << 10
	// bucketTime is the time whose bytes a bucket holds where a batch would be more: what a port saves up while it has
	// nothing to send it sends at once afterwards, so that no gap shorter than this is lost. 2.75 ms is a batch at 200
	// Mbit/s.
	bucketTime = 2750 * time.Microsecond
	// timerLateness is by how much timers may be late without a loss of rate, on busy processors.
	timerLateness = 250 * time.Microsecond
	// hostQueueBytes is more than the send buffers of all sockets of a host: whoever sends too much waits, as for a real
	// interface.
	hostQueueBytes = 256 << 20
	// tcChange is what becomes of a limit in use. Its bucket never shrinks: batches may wait for it that have just room in
	// it, and behind one that is larger than the bucket the kernel's queue stands still for ever.
	tcChange = "change"
	// bucketRounding is more than the bytes by which the kernel's bucket is smaller than what it was asked for.
	bucketRounding = 1024
	// hostQueuePackets is more packets than those buffers hold; the kernel makes room for them beforehand.
	hostQueuePackets = 32 << 10
)

// hostBurst is the size of the bucket of a host's interface at a rate.
func (s *Spec) hostBurst(rate Rate) int64 {
	during := func(d time.Duration) int64 { return int64(float64(rate) / 8 * d.Seconds()) }
	return cmp.Or(int64(s.Burst), max(min(gsoBatch, during(bucketTime)), during(timerLateness), int64(2*s.frame())))
}

// setLimit sets rate and queue of both directions of a host's cable; how is add or change. The bucket of the switch is
// half as large again as that of the host: what one host sends by itself, a little of it late, finds no queue.
func (b *Bed) setLimit(host int, rate Rate, how string) error {
	set := func(n *netns.Namespace, dev string, bucket, limit int64, more ...string) error {
		if how == tcChange {
			all, err := queues(n)
			if err != nil {
				return err
			}
			bucket = max(bucket, (all[dev].bucket+bucketRounding-1)/bucketRounding*bucketRounding)
		}
		const tbf = "qdisc %s dev %s root handle 1: tbf rate %dbit burst %d limit %d"
		return b.tc(n, append([]string{fmt.Sprintf(tbf, how, dev, rate, bucket, limit)}, more...)...)
	}
	burst := b.spec.hostBurst(rate)
	if err := set(b.switchNS, hostName(host), burst+burst/2, int64(b.spec.Queue)); err != nil {
		return err
	}
	if how == tcChange {
		return set(b.hostNS[host], "eth0", burst, hostQueueBytes)
	}
	// Linux's default queue: what is marked low-delay goes first, as on a real host.
	return set(b.hostNS[host], "eth0", burst, hostQueueBytes, "qdisc add dev eth0 parent 1:1 pfifo_fast")
}

// ip and tc run one line after the other in a single process.
func (b *Bed) ip(n *netns.Namespace, lines ...string) error { return batch(n, "ip", lines) }
func (b *Bed) tc(n *netns.Namespace, lines ...string) error { return batch(n, "tc", lines) }

func batch(n *netns.Namespace, program string, lines []string) error {
	_, err := n.Run(strings.Join(lines, "\n")+"\n", program, "-batch", "-")
	if err != nil {
		return fmt.Errorf("%s: %w", strings.Join(lines, "; "), err)
	}
	return nil
}
