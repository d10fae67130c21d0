package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"syscall"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sys/unix"

	"ringlet/lab/trial"
)

// Raw UDP: what the kernel delivers without any guarantee.

// socketBuf is the buffer that the carriers ask for.
const socketBuf = 8 << 20

// spinReader polls a socket for a time before it sleeps, as transport/quic does.
type spinReader struct {
	raw           syscall.RawConn
	spin          time.Duration
	buf           []byte
	n             int
	err           error
	wouldBlock    bool
	readOnce      func(fd uintptr) bool
	readWhenReady func(fd uintptr) bool
}

func newSpinReader(c syscall.Conn, spin time.Duration, size int) (*spinReader, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	r := &spinReader{
		raw:  raw,
		spin: spin,
		buf:  make([]byte, size),
	}
	r.readWhenReady = func(fd uintptr) bool {
		for {
			r.n, r.err = unix.Read(int(fd), r.buf)
			if !errors.Is(r.err, unix.EINTR) {
				return !errors.Is(r.err, unix.EAGAIN)
			}
		}
	}
	r.readOnce = func(fd uintptr) bool {
		r.wouldBlock = !r.readWhenReady(fd)
		return true
	}
	return r, nil
}

func (r *spinReader) read() ([]byte, error) {
	got := false
	if r.spin > 0 {
		for end := time.Now().Add(r.spin); !got && time.Now().Before(end); {
			for range 8 {
				if err := r.raw.Read(r.readOnce); err != nil {
					return nil, err
				}
				if got = !r.wouldBlock; got {
					break
				}
				runtime.Gosched()
			}
		}
	}
	if !got {
		if err := r.raw.Read(r.readWhenReady); err != nil {
			return nil, err
		}
	}
	if r.err != nil {
		return nil, r.err
	}
	return r.buf[:r.n], nil
}

// Read reads into memory of the caller, who has one call at a time. It returns io.EOF when a connection has ended.
func (r *spinReader) Read(p []byte) (int, error) {
	r.buf = p
	b, err := r.read()
	if err == nil && len(b) == 0 {
		err = io.EOF
	}
	return len(b), err
}

// startUDPSink counts the bytes that arrive.
func startUDPSink(f *far) (*job, error) {
	c, err := listenUDP(f.cfg.Host)
	if err != nil {
		return nil, err
	}
	_ = c.SetReadBuffer(socketBuf) // the kernel may give less; hostlimits reports that
	r, err := newSpinReader(c, f.spin(), 1<<16)
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	// without GRO packets come one by one
	_ = r.raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.IPPROTO_UDP, unix.UDP_GRO, 1) })
	var got byteCounter
	return startJob(c.LocalAddr(), c.Close, got.countArrived, func() {
		for {
			b, err := r.read()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			got.Add(uint64(len(b)))
		}
	}), nil
}

// gsoSegments is the number of segments in one send: the kernel takes at most 64, and 64 KiB.
const gsoSegments = 44

// sendUDP floods the far end with full packets for the duration.
func sendUDP(ctx context.Context, n *near, addr string) (trial.Figures, error) {
	c, err := dialUDP(addr)
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	_ = c.SetWriteBuffer(socketBuf)
	segment := packetSize(c.LocalAddr(), n.mtu)
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	many := gsoSegments
	if err := raw.Control(func(fd uintptr) {
		if unix.SetsockoptInt(int(fd), unix.IPPROTO_UDP, unix.UDP_SEGMENT, segment) != nil {
			many = 1
		}
	}); err != nil {
		return nil, err
	}
	sent, took, used, err := n.sendForDuration(ctx, many*segment, func(b []byte) (int, error) {
		k, err := c.Write(b)
		if err != nil && !errors.Is(err, unix.ECONNREFUSED) && !errors.Is(err, unix.ENOBUFS) {
			return k, fmt.Errorf("raw UDP: %w", err)
		}
		return k, nil
	})
	if err != nil {
		return nil, err
	}
	return n.transferFigures(ctx, sent, took, used)
}

// packetSize is the payload of a full packet: 1472 bytes, or less if the interface's MTU is smaller.
func packetSize(local net.Addr, mtu int) int {
	headers := 28
	if a, ok := local.(*net.UDPAddr); ok && a.IP.To4() == nil {
		headers = 48
	}
	if mtu == 0 {
		mtu = 1500
	}
	return min(1500, mtu) - headers
}

// startEcho sends datagrams back.
func startEcho(spinning bool) func(f *far) (*job, error) {
	return func(f *far) (*job, error) {
		c, err := listenUDP(f.cfg.Host)
		if err != nil {
			return nil, err
		}
		spin := time.Duration(0)
		if spinning {
			spin = f.spin()
		}
		return startJob(c.LocalAddr(), c.Close, nothingSent, func() { echo(c, spin) }), nil
	}
}

func echo(c *net.UDPConn, spin time.Duration) {
	_ = c.SetReadDeadline(time.Now().Add(awaitNearTimeout))
	first := make([]byte, tripSize)
	n, from, err := c.ReadFromUDPAddrPort(first)
	if err != nil {
		return
	}
	_ = c.SetReadDeadline(time.Time{})
	r, err := newSpinReader(c, spin, tripSize)
	if err != nil {
		return
	}
	for b := first[:n]; ; {
		if _, err := c.WriteToUDPAddrPort(b, from); err != nil {
			return
		}
		if b, err = r.read(); err != nil {
			return
		}
	}
}

// newTimes makes a histogram of times in ns, up to 10 s.
func newTimes() *hdr.Histogram { return hdr.New(1, int64(10*time.Second), 3) }

// microsAt is a quantile of times in ns, in µs.
func microsAt(h *hdr.Histogram, quantile float64) float64 {
	return float64(h.ValueAtQuantile(quantile)) / 1e3
}

// putTimes adds the quantiles of times, in µs.
func putTimes(res trial.Figures, figure string, h *hdr.Histogram) {
	for name, q := range map[string]float64{".p50": 50, ".p99": 99, ".p999": 99.9} {
		res[figure+name] = microsAt(h, q)
	}
}

// A packet of a round trip may be lost, and a process may be suspended on a busy machine.
const (
	tripTimeout  = time.Second // then the trip is given up, and the next packet is sent
	maxLostTrips = 3           // more lost trips end the measurement with an error
)

// udpTripReference measures round trips, one at a time.
func udpTripReference(spinning bool) func(context.Context, *near, string) (trial.Figures, error) {
	return func(ctx context.Context, n *near, addr string) (trial.Figures, error) {
		spin := time.Duration(0)
		if spinning {
			spin = n.cfg.Spin
		}
		return measureRoundTrips(ctx, addr, spin, n.cfg.Duration/2)
	}
}

func measureRoundTrips(ctx context.Context, addr string, spin, d time.Duration) (trial.Figures, error) {
	c, err := dialUDP(addr)
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	r, err := newSpinReader(c, spin, tripSize)
	if err != nil {
		return nil, err
	}
	h, b := newTimes(), make([]byte, tripSize)
	// one deadline for all: the carriers do not spend the time that setting it takes
	_ = c.SetReadDeadline(time.Now().Add(d + tripTimeout))
	lost := 0
	for end := time.Now().Add(d); ctx.Err() == nil; {
		began := time.Now()
		if began.After(end) {
			break
		}
		if _, err := c.Write(b); err != nil {
			return nil, fmt.Errorf("raw UDP: %w", err)
		}
		if _, err := r.read(); err != nil {
			if lost++; lost == maxLostTrips || !errors.Is(err, os.ErrDeadlineExceeded) {
				return nil, fmt.Errorf("raw UDP round trip: no answer: %w", err)
			}
			_ = c.SetReadDeadline(time.Now().Add(d + tripTimeout))
			continue
		}
		_ = h.RecordValue(int64(time.Since(began))) // at most 10 s
	}
	if h.TotalCount() == 0 {
		return nil, errors.New("raw UDP round trip: none was answered")
	}
	res := trial.Figures{}
	putTimes(res, "trip_us", h)
	return res, ctx.Err()
}
