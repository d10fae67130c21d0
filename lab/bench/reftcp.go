package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"ringlet/internal/address"
	"ringlet/lab/trial"
	"ringlet/shmem"
)

func startTCP(f *far) (*job, error) { return startTCPSink(f.cfg.Host, f.arena.Bytes()) }

// startTCPSink reads one connection directly into mapped memory.
func startTCPSink(host string, mem []byte) (*job, error) {
	l, err := address.ListenTCP(net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, err
	}
	_ = l.(*net.TCPListener).SetDeadline(time.Now().Add(awaitNearTimeout))
	var got byteCounter
	end := func(sent uint64) (answer, error) {
		if n := got.awaitCount(sent, maxArrivalWait); n != sent {
			return answer{}, fmt.Errorf("TCP: %d of %d bytes arrived", n, sent)
		}
		return answer{Bytes: sent}, nil
	}
	return startJob(l.Addr(), l.Close, end, func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer func() { _ = c.Close() }()
		for at := 0; ; {
			_ = c.SetReadDeadline(time.Now().Add(awaitNearTimeout))
			n, err := c.Read(mem[at:min(at+blockSize, len(mem))])
			if err != nil {
				return
			}
			got.Add(uint64(n))
			if at += n; at == len(mem) {
				at = 0
			}
		}
	}), nil
}

// sendTCPFor is the near end of the reference. TCP repeats what is lost, so the time is until all bytes are received.
func sendTCPFor(ctx context.Context, n *near, addr string) (trial.Figures, error) {
	began := time.Now()
	sent, used, err := n.sendTCP(ctx, addr)
	if err != nil {
		return nil, err
	}
	res, err := n.transferFigures(ctx, sent, time.Since(began), used)
	delete(res, "lost_share")
	return res, err
}

// sendTCP writes 1 MiB at a time for the duration.
func (n *near) sendTCP(ctx context.Context, addr string) (sent uint64, used time.Duration, err error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = c.Close() }()
	defer context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Now()) })()
	sent, _, used, err = n.sendForDuration(ctx, blockSize, c.Write)
	return sent, used, err
}

// TCP measures one TCP connection for the duration d; both ends are in this process, and host is the address between
// them. The reference tcp of `ringlet bench carriers` measures the same with its far end in another process. TCP
// returns Gbit/s.
func TCP(ctx context.Context, host string, d time.Duration) (_ float64, err error) {
	mem := make([]byte, 4*blockSize)
	sink, err := startTCPSink(host, mem)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, sink.close()) }()
	n := &near{cfg: Config{Duration: d}, source: make([]byte, 4*blockSize)}
	began := time.Now()
	sent, _, err := n.sendTCP(ctx, sink.addr)
	if err != nil {
		return 0, err
	}
	got, err := sink.awaitCounted(sent)
	return gbps(got.Bytes, time.Since(began)), err
}

// copies is the reference of the carrier local: only the copy, into the same kind of memory.
type copies struct {
	mem    *shmem.Segment
	source []byte
}

func newCopies(size int, source []byte) (*copies, error) {
	mem, err := shmem.Create(segmentName("copy"), size)
	if err != nil {
		return nil, err
	}
	c := &copies{mem, source}
	c.copyUntil(blockSize, time.Time{}, uint64(size)) // touches the pages of the mapping
	return c, nil
}

func (c *copies) close() error { return c.mem.Close() }

// copyUntil copies pieces until the given time, or until most bytes are copied. It reads the clock itself, once for
// each MiB: if the process has one processor, a timer would fire late, as the runtime cannot interrupt a copy.
func (c *copies) copyUntil(piece int, until time.Time, most uint64) uint64 {
	mem, sent, look := c.mem.Bytes(), uint64(0), uint64(0)
	for to, from := 0, 0; sent < most; {
		copy(mem[to:to+piece], c.source[from:from+piece])
		sent += uint64(piece)
		if to += piece; to+piece > len(mem) {
			to = 0
		}
		if from += piece; from+piece > len(c.source) {
			from = 0
		}
		if sent-look >= blockSize {
			if look = sent; !until.IsZero() && time.Now().After(until) {
				break
			}
		}
	}
	return sent
}

// copyReference is the near end of the reference, which has no far end.
func copyReference(piece int) func(context.Context, *near, string) (trial.Figures, error) {
	return func(_ context.Context, n *near, _ string) (_ trial.Figures, err error) {
		if n.copies == nil {
			if n.copies, err = newCopies(int(n.cfg.Memory), n.source); err != nil {
				return nil, err
			}
		}
		return n.copies.measure(piece, n.cfg.Duration), nil
	}
}

// measure copies for the duration.
func (c *copies) measure(piece int, d time.Duration) trial.Figures {
	cpu, began := cpuTime(), time.Now()
	n := c.copyUntil(piece, began.Add(d), ^uint64(0))
	return trial.Figures{"goodput_gbps": gbps(n, time.Since(began)), "near_cpu_s_per_gb": perGB(cpuTime()-cpu, n)}
}

// freePort finds a free TCP port, for programs that cannot choose one.
func freePort(host string) (int, error) {
	l, err := address.ListenTCP(net.JoinHostPort(host, "0"))
	if err != nil {
		return 0, err
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port, nil
}
