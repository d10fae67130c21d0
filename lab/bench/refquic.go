package bench

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"ringlet/node/certs"
	"ringlet/transport"
	"ringlet/transport/quic"
)

// The reference of the carrier quic: the same socket, the same connection and packets of the same size, but no link
// above it. Datagrams go as fast as quic-go takes them, and those that are lost stay lost.

func listenQUIC(id *certs.Identity, host string, spin time.Duration) (*quic.Network, error) {
	return quic.Listen(quic.Config{
		Addr: net.JoinHostPort(host, "0"), Server: id.Server(), Client: id.Client, Name: peerName, Spin: spin,
	})
}

// bare is a hello that no endpoint takes for one of its own.
var bare = []byte("bench")

// upgraded takes the plain QUIC datagrams of a fresh connection.
func upgraded(ctx context.Context, c transport.Conn, dialler bool) (transport.Conn, error) {
	u, ok := c.(transport.Upgrader)
	if !ok {
		return c, nil
	}
	up, err := u.Upgrade(ctx, transport.Upgrade{Carrier: transport.CarrierQUIC, Dialler: dialler})
	if err != nil {
		return nil, errors.Join(err, c.Close("no datagrams"))
	}
	return up, nil
}

// quicSink counts datagrams.
type quicSink struct {
	counted
	network *quic.Network
	stop    context.CancelFunc
	wg      sync.WaitGroup
}

func startQUICSink(f *far) (job, error) {
	n, err := listenQUIC(f.cfg.Identity, f.cfg.Host, time.Duration(f.hello.SpinNs))
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithTimeout(context.Background(), jobPatience)
	s := &quicSink{network: n, stop: stop}
	s.wg.Go(func() { s.receive(ctx) })
	return s, nil
}

func (s *quicSink) receive(ctx context.Context) {
	in, err := s.network.Accept(ctx)
	if err != nil {
		return
	}
	c, err := in.Answer(bare)
	if err == nil {
		c, err = upgraded(ctx, c, false)
	}
	if err != nil {
		return
	}
	var batch [64][]byte
	for {
		n, err := c.Recv(batch[:])
		if err != nil {
			return
		}
		size := 0
		for _, d := range batch[:n] {
			size += len(d)
		}
		s.bytes.Add(uint64(size))
		s.reads.Add(uint64(n))
	}
}

func (s *quicSink) addr() string { return s.network.Addr().String() }

func (s *quicSink) end(sent uint64) (answer, error) {
	return answer{Bytes: s.settle(sent, quietTime)}, nil
}

func (s *quicSink) close() error {
	s.stop()
	err := s.network.Close()
	s.wg.Wait()
	return err
}

// sendQUIC sends full datagrams for the duration, as fast as they are taken.
func sendQUIC(ctx context.Context, c linkConfig, far, addr string, source []byte, d time.Duration) (sent uint64,
	took time.Duration, err error) {
	n, err := listenQUIC(c.id, c.host, c.spin)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	dial, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	conn, _, err := n.Dial(dial, far, addr, bare)
	if err != nil {
		return 0, 0, err
	}
	if conn, err = upgraded(dial, conn, true); err != nil {
		return 0, 0, err
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close("interrupted") })()
	var over atomic.Bool
	defer time.AfterFunc(d, func() { over.Store(true) }).Stop()
	size, began := conn.MaxDatagram(), time.Now()
	for at := 0; !over.Load(); at += size {
		if at+size > len(source) {
			at = 0
		}
		if err := conn.Send(source[at : at+size]); err != nil {
			return 0, 0, errors.Join(ctx.Err(), err)
		}
		sent += uint64(size)
	}
	took = time.Since(began)
	// Closing throws away what quic-go still has in its queue of 32.
	select {
	case <-time.After(quietTime):
	case <-ctx.Done():
	}
	return sent, took, ctx.Err()
}
