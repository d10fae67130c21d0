package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sys/unix"

	"ringlet/lab/trial"
)

// Raw UDP: what the kernel gives when nothing is promised.

// socketBuf is asked for, as the carriers ask for it.
const socketBuf = 8 << 20

// spinReader reads a socket with one system call after the other for a time before it sleeps, as transport/quic does.
type spinReader struct {
	conn *net.UDPConn
	raw  syscall.RawConn
	spin time.Duration
	buf  []byte
	n    int
	err  error
	none bool
	look func(fd uintptr) bool
	wait func(fd uintptr) bool
}

func newSpinReader(c *net.UDPConn, spin time.Duration, size int) (*spinReader, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	r := &spinReader{conn: c, raw: raw, spin: spin, buf: make([]byte, size)}
	r.wait = func(fd uintptr) bool {
		for {
			r.n, r.err = unix.Read(int(fd), r.buf)
			if !errors.Is(r.err, unix.EINTR) {
				return !errors.Is(r.err, unix.EAGAIN)
			}
		}
	}
	r.look = func(fd uintptr) bool {
		r.none = !r.wait(fd)
		return true
	}
	return r, nil
}

func (r *spinReader) read() ([]byte, error) {
	got := false
	if r.spin > 0 {
		for end := time.Now().Add(r.spin); !got && time.Now().Before(end); {
			for range 8 {
				if err := r.raw.Read(r.look); err != nil {
					return nil, err
				}
				if got = !r.none; got {
					break
				}
				runtime.Gosched()
			}
		}
	}
	if !got {
		if err := r.raw.Read(r.wait); err != nil {
			return nil, err
		}
	}
	if r.err != nil {
		return nil, r.err
	}
	return r.buf[:r.n], nil
}

// udpSink counts what arrives.
type udpSink struct {
	counted
	conn *net.UDPConn
	wg   sync.WaitGroup
}

func startUDPSink(host string, spin time.Duration) (job, error) {
	c, err := listenUDP(host)
	if err != nil {
		return nil, err
	}
	_ = c.SetReadBuffer(socketBuf) // what the kernel gives; hostlimits says when that is less
	r, err := newSpinReader(c, spin, 1<<16)
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	// else one by one
	_ = r.raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.IPPROTO_UDP, unix.UDP_GRO, 1) })
	s := &udpSink{conn: c}
	s.wg.Go(func() {
		for {
			b, err := r.read()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			s.bytes.Add(uint64(len(b)))
			s.reads.Add(1)
		}
	})
	return s, nil
}

func (s *udpSink) addr() string { return s.conn.LocalAddr().String() }

func (s *udpSink) end(sent uint64) (answer, error) {
	return answer{Bytes: s.settle(sent, quietTime)}, nil
}

func (s *udpSink) close() error {
	err := s.conn.Close()
	s.wg.Wait()
	return err
}

// segments of one send: the kernel takes 64 at most, and 64 KiB.
const segments = 44

// sendUDP floods the far end with full packets for the duration, and returns how many bytes went.
func sendUDP(ctx context.Context, addr string, mtu int, source []byte, d time.Duration) (uint64, time.Duration, error) {
	c, err := dialUDP(addr)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = c.Close() }()
	_ = c.SetWriteBuffer(socketBuf)
	segment := packetSize(c.LocalAddr(), mtu)
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, 0, err
	}
	many := segments
	if err := raw.Control(func(fd uintptr) {
		if unix.SetsockoptInt(int(fd), unix.IPPROTO_UDP, unix.UDP_SEGMENT, segment) != nil {
			many = 1
		}
	}); err != nil {
		return 0, 0, err
	}
	var over atomic.Bool
	defer time.AfterFunc(d, func() { over.Store(true) }).Stop()
	size, sent, began := many*segment, uint64(0), time.Now()
	for at := 0; !over.Load() && ctx.Err() == nil; at += size {
		if at+size > len(source) {
			at = 0
		}
		n, err := c.Write(source[at : at+size])
		if err != nil && !errors.Is(err, unix.ECONNREFUSED) && !errors.Is(err, unix.ENOBUFS) {
			return 0, 0, fmt.Errorf("raw UDP: %w", err)
		}
		sent += uint64(n)
	}
	return sent, time.Since(began), ctx.Err()
}

// packetSize is the payload of a full packet: 1472 bytes, or what the interface bears where that is less.
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

// echo sends back what comes.
type echo struct {
	conn *net.UDPConn
	wg   sync.WaitGroup
}

func startEcho(host string, spin time.Duration) (job, error) {
	c, err := listenUDP(host)
	if err != nil {
		return nil, err
	}
	_ = c.SetReadDeadline(time.Now().Add(jobPatience))
	first := make([]byte, tripSize)
	e := &echo{conn: c}
	e.wg.Go(func() {
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
	})
	return e, nil
}

func (e *echo) addr() string { return e.conn.LocalAddr().String() }

func (e *echo) end(uint64) (answer, error) { return answer{}, nil }

func (e *echo) close() error {
	err := e.conn.Close()
	e.wg.Wait()
	return err
}

// newTimes makes a histogram of times up to 10 s in ns.
func newTimes() *hdr.Histogram { return hdr.New(1, int64(10*time.Second), 3) }

// putTimes adds the quantiles of a time, µs.
func putTimes(res trial.Figures, figure string, h *hdr.Histogram) {
	for name, q := range map[string]float64{".p50": 50, ".p99": 99, ".p999": 99.9} {
		res[figure+name] = float64(h.ValueAtQuantile(q)) / 1e3
	}
}

// A packet of a round trip may be lost on a network, and a process may stand still on a busy machine.
const (
	lostTrip  = time.Second // when it is given up; the next one is then sent
	lostTrips = 3           // that many and it is no measurement
)

// tripsUDP measures round trips one after the other.
func tripsUDP(ctx context.Context, addr string, spin, d time.Duration, res trial.Figures) error {
	c, err := dialUDP(addr)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	r, err := newSpinReader(c, spin, tripSize)
	if err != nil {
		return err
	}
	h, b := newTimes(), make([]byte, tripSize)
	// one for all: setting it takes time that the carriers do not spend
	_ = c.SetReadDeadline(time.Now().Add(d + lostTrip))
	lost := 0
	for end := time.Now().Add(d); ctx.Err() == nil; {
		began := time.Now()
		if began.After(end) {
			break
		}
		if _, err := c.Write(b); err != nil {
			return fmt.Errorf("raw UDP: %w", err)
		}
		if _, err := r.read(); err != nil {
			if lost++; lost == lostTrips || !errors.Is(err, os.ErrDeadlineExceeded) {
				return fmt.Errorf("raw UDP round trip: no answer: %w", err)
			}
			_ = c.SetReadDeadline(time.Now().Add(d + lostTrip))
			continue
		}
		_ = h.RecordValue(int64(time.Since(began))) // longer than 10 s it cannot be
	}
	if h.TotalCount() == 0 {
		return errors.New("raw UDP round trip: none was answered")
	}
	putTimes(res, "trip_us", h)
	return ctx.Err()
}
