package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"ringlet/lab/trial"
	"ringlet/shmem"
)

// tcpSink reads one connection straight into mapped memory.
type tcpSink struct {
	counted
	lis *net.TCPListener
	wg  sync.WaitGroup
}

func startTCPSink(host string, mem []byte) (job, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, err
	}
	s := &tcpSink{lis: l.(*net.TCPListener)}
	_ = s.lis.SetDeadline(time.Now().Add(jobPatience))
	s.wg.Go(func() {
		c, err := s.lis.Accept()
		if err != nil {
			return
		}
		defer func() { _ = c.Close() }()
		for at := 0; ; {
			_ = c.SetReadDeadline(time.Now().Add(jobPatience))
			n, err := c.Read(mem[at:min(at+blockSize, len(mem))])
			if err != nil {
				return
			}
			s.bytes.Add(uint64(n))
			if at += n; at == len(mem) {
				at = 0
			}
		}
	})
	return s, nil
}

func (s *tcpSink) addr() string { return s.lis.Addr().String() }

func (s *tcpSink) end(sent uint64) (answer, error) {
	got := s.settle(sent, quietMost)
	if got != sent {
		return answer{}, fmt.Errorf("TCP: %d of %d bytes arrived", got, sent)
	}
	return answer{Bytes: got}, nil
}

func (s *tcpSink) close() error {
	err := s.lis.Close()
	s.wg.Wait()
	return err
}

// sendTCP writes 1 MiB at a time for the duration.
func sendTCP(ctx context.Context, addr string, source []byte, d time.Duration) (uint64, error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return 0, err
	}
	defer func() { _ = c.Close() }()
	defer context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Now()) })()
	var over atomic.Bool
	defer time.AfterFunc(d, func() { over.Store(true) }).Stop()
	sent := uint64(0)
	for at := 0; !over.Load(); at += blockSize {
		if at+blockSize > len(source) {
			at = 0
		}
		n, err := c.Write(source[at : at+blockSize])
		sent += uint64(n)
		if err != nil {
			return sent, errors.Join(ctx.Err(), err)
		}
	}
	return sent, ctx.Err()
}

// TCP measures one connection between two ends in this process over the given address: what `ringlet bench carriers`
// calls tcp, for those who want no other process. It gives Gbit/s.
func TCP(ctx context.Context, host string, d time.Duration) (_ float64, err error) {
	mem := make([]byte, 4*blockSize)
	sink, err := startTCPSink(host, mem)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, sink.close()) }()
	began := time.Now()
	sent, err := sendTCP(ctx, sink.addr(), make([]byte, 4*blockSize), d)
	if err != nil {
		return 0, err
	}
	got, err := sink.end(sent)
	return gbps(got.Bytes, time.Since(began)), err
}

// copies is the reference of the carrier local: nothing but the copy, into the same kind of memory.
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
	c.run(blockSize, time.Time{}, uint64(size)) // the pages of the mapping are there from now on
	return c, nil
}

func (c *copies) close() error { return c.mem.Close() }

// run copies pieces until the given time, or most bytes are copied. It looks at the clock by itself, once for each MiB:
// where a process has one processor, a timer would have to wait for a copy to be interrupted, which the runtime seldom
// can.
func (c *copies) run(piece int, until time.Time, most uint64) uint64 {
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

// measure copies for the duration.
func (c *copies) measure(piece int, d time.Duration) trial.Figures {
	cpu, began := cpuTime(), time.Now()
	n := c.run(piece, began.Add(d), ^uint64(0))
	return trial.Figures{"goodput_gbps": gbps(n, time.Since(began)), "near_cpu_s_per_gb": perGB(cpuTime()-cpu, n)}
}

// freePort finds a TCP port that nobody listens on, for programs that cannot be told to find one.
func freePort(host string) (int, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return 0, err
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port, nil
}
