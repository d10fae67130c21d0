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

// CheckPossible says why no test bed can be made here, or returns nil.
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

// controlHost is the host of the control. Its port has no limit: the traffic of the control is not measured.
const controlHost = "control"

// A Bed is a switch and its hosts.
type Bed struct {
	// immutable after New or Attach
	spec      Spec
	switchNS  *netns.Namespace
	hostNS    []*netns.Namespace
	controlNS *netns.Namespace
}

// New makes a bed. The caller has completed the Spec.
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

// Spec returns the Spec of the bed.
func (b *Bed) Spec() Spec { return b.spec }

// Enter moves the calling thread to a host by its name, or to the host of the control. The caller has locked its
// goroutine to the thread for good.
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

// Close closes the bed's files; the bed ends with the last process in it. b may be nil.
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
	if err := b.addSwitches(); err != nil {
		return err
	}
	for i := range b.spec.Hosts {
		n, err := b.addHost(hostName(i), b.Address(i), macAddress(i), i)
		if err != nil {
			return err
		}
		b.hostNS = append(b.hostNS, n)
		if err := b.setLimit(i, b.spec.rate(i), "add"); err != nil {
			return err
		}
	}
	if b.controlNS, err = b.addHost(controlHost, b.ControlAddress(), macAddress(maxHosts), 0); err != nil {
		return err
	}
	return b.addNeighbours()
}

// addNeighbours enters the addresses of all hosts in every host, so that no host sends ARP requests. The kernel forgets
// what it learned by ARP, and keeps at most 1024 neighbours in all namespaces together, so not every host would find
// the 32nd. And a request lost in a full queue costs a second.
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

// silenceNamespace keeps a namespace from sending by itself: IPv6 would look for neighbours and routers, and be
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

// addHost makes a host and its cable to the switch of a neighbour, where the port has the name of the host.
// gso_max_segs 1 has the host cut batches of up to 64 KiB into packets before they leave, as a real interface does, so
// that the switch queues and drops packets.
func (b *Bed) addHost(name, addr, mac string, neighbour int) (*netns.Namespace, error) {
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
			fmt.Sprintf("link set dev %s master %s up", name, b.spec.switchOf(neighbour)))
	}
	if err == nil {
		err = batch(b.switchNS, "bridge", []string{fmt.Sprintf("fdb replace %s dev %s master static", mac, name)})
	}
	if err == nil {
		err = b.addRoutes(mac, neighbour)
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
	// gsoBatch is a sender's largest batch of UDP packets with all headers. If the host's bucket holds it, it leaves by
	// one timer. Else the kernel cuts it, and each packet takes a timer of its own, which is expensive on a virtual
	// machine: with 8 hosts of 200 Mbit/s a run built 0.44 Gbit/s with buckets of 6 and 12 kB, and 0.8 Gbit/s with these,
	// for half the processor time per byte (2026-11-21).
	gsoBatch = 68 << 10
	// bucketTime bounds a bucket in time, if a batch would be more: a port sends at once what it could have sent while it
	// had nothing to send, so gaps up to this length cost no rate. 2.75 ms is a batch at 200 Mbit/s.
	bucketTime = 2750 * time.Microsecond
	// timerLateness is how late timers may be on busy processors without a loss of rate.
	timerLateness = 250 * time.Microsecond
	// hostQueueBytes is more than the send buffers of all sockets of a host: a sender blocks rather than lose, as on a
	// real interface.
	hostQueueBytes = 256 << 20
	// tcChange changes a limit in use. Its bucket never shrinks: a batch that just fits may wait in the queue, and a batch
	// larger than the bucket would block the kernel's queue for ever.
	tcChange = "change"
	// bucketRounding is more than the bytes by which the kernel rounds down the size of a bucket.
	bucketRounding = 1024
	// hostQueuePackets is more than the packets in those buffers; the kernel allocates the queue at once.
	hostQueuePackets = 32 << 10
)

// hostBurst returns the size, in bytes, of the token bucket (tc tbf) that limits a host's interface to a rate.
func (s *Spec) hostBurst(rate Rate) int64 {
	during := func(d time.Duration) int64 { return int64(float64(rate) / 8 * d.Seconds()) }
	return cmp.Or(int64(s.Burst), max(min(gsoBatch, during(bucketTime)), during(timerLateness), int64(2*s.frame())))
}

// setLimit sets rate and queue of both directions of a host's cable; how is add or change. The bucket of the switch is
// half as large again as the host's, so that the packets of a single host, some of them late, never queue there.
func (b *Bed) setLimit(host int, rate Rate, how string) error {
	set := func(n *netns.Namespace, dev string, bucket, limit int64, more ...string) error {
		if how == tcChange {
			all, err := queues(n)
			if err != nil {
				return err
			}
			bucket = max(bucket, (all[dev].bucket+bucketRounding-1)/bucketRounding*bucketRounding)
		}
		return b.setTokenBucket(n, dev, how, rate, bucket, limit, more...)
	}
	burst := b.spec.hostBurst(rate)
	if err := set(b.switchNS, hostName(host), burst+burst/2, int64(b.spec.Queue)); err != nil {
		return err
	}
	if how == tcChange {
		return set(b.hostNS[host], "eth0", burst, hostQueueBytes)
	}
	// Linux's default queue sends low-delay packets first, as on a real host.
	return set(b.hostNS[host], "eth0", burst, hostQueueBytes, "qdisc add dev eth0 parent 1:1 pfifo_fast")
}

// ip and tc run several lines in a single process.
func (b *Bed) ip(n *netns.Namespace, lines ...string) error { return batch(n, "ip", lines) }
func (b *Bed) tc(n *netns.Namespace, lines ...string) error { return batch(n, "tc", lines) }

func batch(n *netns.Namespace, program string, lines []string) error {
	_, err := n.Run(strings.Join(lines, "\n")+"\n", program, "-batch", "-")
	if err != nil {
		return fmt.Errorf("%s: %w", strings.Join(lines, "; "), err)
	}
	return nil
}
