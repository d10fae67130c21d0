package bench

import (
	"fmt"
	"net"
	"sync/atomic"
	"time"
)

// References, by the name they have in a report.
const (
	refCopy      = "copy"                // pieces of 1 MiB into a mapped file
	refCopySmall = "copy-128"            // pieces of 128 bytes
	refUDP       = "udp-gso"             // raw UDP with GSO and GRO
	refTCP       = "tcp"                 // 1 MiB writes into a mapping
	refQUIC      = "quic-datagrams"      // quic-go's datagrams, unpaced
	refTrip      = "udp-trip"            // raw UDP round trip of 128 bytes, both ends asleep
	refTripSpin  = "udp-trip-spin"       // the same, both ends looking again and again
	refIPerf     = "iperf3"              // TCP
	refMPIShm    = "openmpi-memory"      // linear shift among 4 ranks over shared memory
	refMPITCP    = "openmpi-tcp"         // the same over TCP
	blockSize    = 1 << 20               // of copies and TCP writes
	tripSize     = 128                   // bytes
	quietTime    = 20 * time.Millisecond // after which nothing more is believed to be on its way
	quietMost    = 2 * time.Second       // for which things on their way are waited
	jobPatience  = 10 * time.Second      // for the near process to connect
)

// referenceNames in the order of a report.
var referenceNames = []string{refCopy, refCopySmall, refUDP, refTCP, refQUIC, refIPerf, refMPIShm, refMPITCP, refTrip,
	refTripSpin}

// what says what a reference is.
var what = map[string]string{
	refCopy:      "copy into a mapped file, pieces of 1 MiB, one process",
	refCopySmall: "copy into a mapped file, pieces of 128 B, one process",
	refUDP:       "raw UDP, GSO and GRO, full packets, received",
	refTCP:       "TCP, 1 MiB writes into a mapping",
	refQUIC:      "quic-go datagrams, unpaced, received",
	refTrip:      "raw UDP round trip of 128 B, both ends sleep",
	refTripSpin:  "raw UDP round trip of 128 B, both ends look again and again",
	refIPerf:     "iperf3, TCP, cleartext",
	refMPIShm:    "OpenMPI, linear shift of 1 MiB, 4 ranks, barrier per phase, shared memory, between ranks",
	refMPITCP:    "OpenMPI, the same over TCP",
}

// startJob starts the far end of a reference.
func (f *far) startJob(name string) (job, error) {
	switch name {
	case refUDP:
		return startUDPSink(f.cfg.Host, time.Duration(f.hello.SpinNs))
	case refTCP:
		return startTCPSink(f.cfg.Host, f.arena.Bytes())
	case refQUIC:
		return startQUICSink(f)
	case refTrip:
		return startEcho(f.cfg.Host, 0)
	case refTripSpin:
		return startEcho(f.cfg.Host, time.Duration(f.hello.SpinNs))
	case refIPerf:
		return startIPerf(f.cfg.Host)
	}
	return nil, fmt.Errorf("reference %q is not known here", name)
}

// counted is a count of bytes by a goroutine that receives.
type counted struct{ bytes, reads atomic.Uint64 }

// settle waits until all that was sent is counted, or nothing more comes for a while.
func (c *counted) settle(sent uint64, quiet time.Duration) uint64 {
	last, since := c.bytes.Load(), time.Now()
	for until := time.Now().Add(quietMost); time.Now().Before(until) &&
		c.bytes.Load() < sent; time.Sleep(time.Millisecond) {
		if n := c.bytes.Load(); n != last {
			last, since = n, time.Now()
		} else if time.Since(since) > quiet {
			break
		}
	}
	return c.bytes.Load()
}

func listenUDP(host string) (*net.UDPConn, error) {
	addr, err := net.ResolveUDPAddr("udp", net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, err
	}
	return net.ListenUDP("udp", addr)
}

func dialUDP(addr string) (*net.UDPConn, error) {
	to, err := net.ResolveUDPAddr("udp", addr)
	if err != nil {
		return nil, err
	}
	return net.DialUDP("udp", nil, to)
}

// gbps of n bytes in a time.
func gbps(n uint64, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(n) * 8 / d.Seconds() / 1e9
}

func perGB(cpu time.Duration, n uint64) float64 {
	if n == 0 {
		return 0
	}
	return cpu.Seconds() / (float64(n) / 1e9)
}
