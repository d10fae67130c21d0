package bench

import (
	"context"
	"errors"
	"time"

	"ringlet/lab/trial"
	"ringlet/transport"
	"ringlet/transport/quic"
)

// The reference of the carrier quic: the same socket and connection, and packets of the same size, but no link above
// them. quic-go takes datagrams as fast as it can, and those that are lost are not sent again.

// benchHello is a hello that no endpoint accepts.
var benchHello = []byte("bench")

// upgradeConn switches a fresh connection to plain QUIC datagrams.
func upgradeConn(ctx context.Context, c transport.Conn, dialler bool) (transport.Conn, error) {
	u, ok := c.(transport.Upgrader)
	if !ok {
		return c, nil
	}
	up, err := u.Upgrade(ctx, transport.Upgrade{Carrier: transport.CarrierQUICGo, Dialler: dialler})
	if err != nil {
		return nil, errors.Join(err, c.Close("no datagrams"))
	}
	return up, nil
}

// startQUICSink counts datagrams.
func startQUICSink(f *far) (*job, error) {
	n, err := (&linkConfig{id: f.cfg.Identity, host: f.cfg.Host, spin: f.spin()}).listen()
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithTimeout(context.Background(), awaitNearTimeout)
	var got byteCounter
	hangUp := func() error { stop(); return n.Close() }
	return startJob(n.Addr(), hangUp, got.countArrived, func() { receive(ctx, n, &got) }), nil
}

func receive(ctx context.Context, network *quic.Network, got *byteCounter) {
	in, err := network.Accept(ctx)
	if err != nil {
		return
	}
	c, err := in.Answer(benchHello)
	if err == nil {
		c, err = upgradeConn(ctx, c, false)
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
		got.Add(uint64(size))
	}
}

// sendQUIC sends full datagrams for the duration, as fast as quic-go takes them.
func sendQUIC(ctx context.Context, n *near, addr string) (res trial.Figures, err error) {
	network, err := (&linkConfig{id: n.cfg.Identity, host: n.cfg.Host, spin: n.cfg.Spin}).listen()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, network.Close()) }()
	dial, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	conn, _, err := network.Dial(dial, n.cfg.FarName, addr, benchHello)
	if err != nil {
		return nil, err
	}
	if conn, err = upgradeConn(dial, conn, true); err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close("interrupted") })()
	sent, took, used, err := n.sendForDuration(ctx, conn.MaxDatagram(),
		func(b []byte) (int, error) { return len(b), conn.Send(b) })
	if err != nil {
		return nil, err
	}
	// Closing drops the datagrams in quic-go's queue of 32: let it send them first.
	select {
	case <-time.After(quietPeriod):
	case <-ctx.Done():
	}
	return n.transferFigures(ctx, sent, took, used)
}
