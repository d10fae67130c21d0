package bench

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"ringlet/lab/trial"
)

// References, by their names in a report.
const (
	refCopy      = "copy"
	refCopySmall = "copy-128"
	refSeal      = "seal"
	refUDP       = "udp-gso"
	refTCP       = "tcp"
	refQUIC      = "quic-datagrams"
	refTrip      = "udp-trip"
	refTripSpin  = "udp-trip-spin"
	refIPerf     = "iperf3"
	refMPIShm    = "openmpi-memory"
	refMPITCP    = "openmpi-tcp"
)

const (
	blockSize      = 1 << 20               // of copies and TCP writes
	tripSize       = 128                   // bytes
	quietPeriod    = 20 * time.Millisecond // if nothing comes for this time, nothing more is on its way
	maxArrivalWait = 2 * time.Second       // how long a job waits for bytes on their way
)

// awaitNearTimeout is how long the near process may take to connect; the tests stretch it.
var awaitNearTimeout = 10 * time.Second

// reference is a row of the table of references.
type reference struct {
	name, what     string
	forSmallWrites bool // measured beside the smallest writes
	thirdParty     bool // another project's program: if it is missing or fails, the measurement has not failed
	applies        func(c *Config) bool
	// near measures; addr is the address of the far end, which far starts. If far is nil, there is none.
	near func(ctx context.Context, n *near, addr string) (trial.Figures, error)
	far  func(f *far) (*job, error)
}

func always(*Config) bool         { return true }
func oneMachine(c *Config) bool   { return c.PeerAddr == "" }
func withMPI(c *Config) bool      { return c.MPI }
func withIPerf(c *Config) bool    { return c.IPerf }
func withSpinning(c *Config) bool { return c.Spin > 0 }

// references in the order of a report.
var references = []reference{
	{refCopy, "copy into a mapped file, pieces of 1 MiB, one process", false, false, oneMachine, copyReference(blockSize),
		nil},
	{refCopySmall, "copy into a mapped file, pieces of 128 B, one process", true, false, oneMachine,
		copyReference(tripSize), nil},
	{refSeal, "AES-128-GCM of packets of 8972 B, sealed one after the other, one process", false, false, always,
		measureSealing, nil},
	{refUDP, "raw UDP, GSO and GRO, full packets, received", false, false, always, sendUDP, startUDPSink},
	{refTCP, "TCP, 1 MiB writes into a mapping", false, false, always, sendTCPFor, startTCP},
	{refQUIC, "quic-go datagrams, unpaced, received", false, false, always, sendQUIC, startQUICSink},
	{refIPerf, "iperf3, TCP, cleartext", false, true, withIPerf, runIPerf, startIPerf},
	{refMPIShm, "OpenMPI, linear shift of 1 MiB, 4 ranks, barrier per phase, shared memory, between ranks", false, true,
		// version 4 of OpenMPI calls the shared memory vader, version 5 sm
		withMPI, shiftReference("vader,self", "sm,self"), nil},
	{refMPITCP, "OpenMPI, the same over TCP", false, true, withMPI, shiftReference("tcp,self"), nil},
	{refTrip, "raw UDP round trip of 128 B, both ends sleep", true, false, always, udpTripReference(false),
		startEcho(false)},
	{refTripSpin, "raw UDP round trip of 128 B, both ends look again and again", true, false, withSpinning,
		udpTripReference(true), startEcho(true)},
}

// referenceOf finds a reference by its name, or returns nil.
func referenceOf(name string) *reference {
	for i := range references {
		if references[i].name == name {
			return &references[i]
		}
	}
	return nil
}

// job is the far end of a reference.
type job struct {
	addr         string
	awaitCounted func(sent uint64) (answer, error) // waits for bytes on their way, and returns the counts
	close        func() error
}

// nothingSent is awaitCounted of a job that counts nothing.
func nothingSent(uint64) (answer, error) { return answer{}, nil }

// transferFigures makes figures of a transfer; the far end counts the bytes that arrived.
func (n *near) transferFigures(ctx context.Context, sent uint64, took, used time.Duration) (trial.Figures, error) {
	a, err := callFar(ctx, n.conn, request{End: &endArgs{Bytes: sent}})
	if err != nil {
		return nil, err
	}
	return trial.Figures{
		"goodput_gbps":      gbps(a.Bytes, took),
		"lost_share":        1 - float64(min(a.Bytes, sent))/float64(max(sent, 1)),
		"near_cpu_s_per_gb": perGB(used, a.Bytes),
		"far_cpu_s_per_gb":  perGB(time.Duration(a.CPUNs), a.Bytes),
	}, nil
}

// startJob makes a job whose goroutine ends when hangUp closes the socket.
func startJob(at net.Addr, hangUp func() error, end func(uint64) (answer, error), work func()) *job {
	var wg sync.WaitGroup
	wg.Go(work)
	return &job{at.String(), end, func() error {
		err := hangUp()
		wg.Wait()
		return err
	}}
}

// sendForDuration sends pieces of the source in turn for the duration, at least one.
func (n *near) sendForDuration(ctx context.Context, piece int, send func([]byte) (int, error)) (
	sent uint64, took, used time.Duration, err error) {
	cpu, began := cpuTime(), time.Now()
	err = runFor(n.cfg.Duration, func(over *atomic.Bool) error {
		for at := 0; (at == 0 || !over.Load()) && ctx.Err() == nil; at += piece {
			if at+piece > len(n.source) {
				at = 0
			}
			k, err := send(n.source[at : at+piece])
			if sent += uint64(k); err != nil {
				return err
			}
		}
		return nil
	})
	return sent, time.Since(began), cpuTime() - cpu, errors.Join(ctx.Err(), err)
}

// byteCounter counts the bytes that a goroutine receives.
type byteCounter struct{ atomic.Uint64 }

// countArrived counts the bytes that arrived of a transfer that may lose some.
func (c *byteCounter) countArrived(sent uint64) (answer, error) {
	return answer{Bytes: c.awaitCount(sent, quietPeriod)}, nil
}

// awaitCount waits until all bytes are counted, or no more come for a while.
func (c *byteCounter) awaitCount(sent uint64, quiet time.Duration) uint64 {
	last, since := c.Load(), time.Now()
	for until := time.Now().Add(maxArrivalWait); time.Now().Before(until) &&
		c.Load() < sent; time.Sleep(time.Millisecond) {
		if n := c.Load(); n != last {
			last, since = n, time.Now()
		} else if time.Since(since) > quiet {
			break
		}
	}
	return c.Load()
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

// gbps is the rate of n bytes in d; d counts as at least a step of the clock.
func gbps(n uint64, d time.Duration) float64 {
	return float64(n) * 8 / max(d, clockStep()).Seconds() / 1e9
}

func perGB(cpu time.Duration, n uint64) float64 {
	if n == 0 {
		return 0
	}
	return cpu.Seconds() / (float64(n) / 1e9)
}
