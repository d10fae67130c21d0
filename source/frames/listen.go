package frames

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"ringlet/internal/address"
	"ringlet/internal/connlimit"
	"ringlet/internal/secret"
	"ringlet/source/live"
)

const (
	// acceptPause is how long a feed waits after accept failed, for example for want of file descriptors.
	acceptPause = 100 * time.Millisecond
	// maxConns is how many connections a feed has at once: one that is attached, and others that send their hello or read
	// why they are refused.
	maxConns = 16
	// maxPerHost is how many of them one host has; over a Unix-domain socket all may be the feed's own host's.
	maxPerHost = 8
)

// keepAlive detects within 11 s that a front-end's host has vanished. Until then the front-end counts as attached.
var keepAlive = net.KeepAliveConfig{
	Enable:   true,
	Idle:     5 * time.Second,
	Interval: 2 * time.Second,
	Count:    3,
}

// OpenTCP listens on set.Address, host:port, for a front-end. With ?secret=FILE after it, the front-end must prove
// that it has the secret in the file.
func OpenTCP(ctx context.Context, set live.FeedSettings) (live.Feed, error) {
	if err := CheckTCP(set.Address); err != nil {
		return nil, fmt.Errorf("input %s: %w", set.Name, err)
	}
	at, key, err := secret.SplitAndRead(set.Address)
	if err != nil {
		return nil, fmt.Errorf("input %s has no secret: %w", set.Name, err)
	}
	set.Address = at
	return listen(ctx, "tcp", set, key)
}

// OpenUnix listens on set.Address, the path of a Unix-domain socket, for a front-end. It replaces a socket that a
// process left there when it died.
func OpenUnix(ctx context.Context, set live.FeedSettings) (live.Feed, error) {
	if err := CheckUnix(set.Address); err != nil {
		return nil, fmt.Errorf("input %s: %w", set.Name, err)
	}
	if err := address.RemoveStaleSocket(ctx, set.Address); err != nil {
		return nil, fmt.Errorf("%w: input %s cannot listen there", err, set.Name)
	}
	return listen(ctx, "unix", set, nil)
}

// listen opens a feed that accepts front-ends.
func listen(ctx context.Context, network string, set live.FeedSettings, key []byte) (live.Feed, error) {
	lc := net.ListenConfig{KeepAliveConfig: keepAlive}
	var lis net.Listener
	var err error
	if network == "tcp" {
		lis, err = address.Listen(ctx, lc, set.Address)
	} else {
		lis, err = lc.Listen(ctx, network, set.Address)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: input %s cannot listen there: choose an address of this host that is free", err,
			set.Name)
	}
	f := newFeed(ctx, set)
	f.addr, f.secret = lis.Addr().String(), key
	f.set.Log.Info("waits for a front-end", "address", network+":"+f.addr)
	if key == nil && !address.IsLocalOnly(lis.Addr()) {
		f.set.Log.Warn("any host that reaches this address can send to the input, and end it: put ?secret=FILE after the "+
			"address, or listen on loopback", "address", f.addr)
	}
	f.wg.Go(func() {
		<-f.ctx.Done()
		_ = lis.Close()
	})
	f.wg.Go(func() { f.accept(lis) })
	return f, nil
}

// accept serves front-ends until the feed is closed.
func (f *feed) accept(lis net.Listener) {
	for n := 0; ; n++ {
		c, err := lis.Accept()
		switch {
		case f.ctx.Err() != nil:
			if err == nil {
				_ = c.Close()
			}
			return
		case errors.Is(err, net.ErrClosed):
			f.fail(fmt.Errorf("%w: input %s cannot go on: start the readout unit again", err, f.set.Name))
			return
		case err != nil:
			f.logEvent(slog.LevelWarn, "a connection could not be accepted", "err", err)
			if !f.sleep(acceptPause) {
				return
			}
			continue
		}
		where, host := c.RemoteAddr().String(), connlimit.HostOf(c.RemoteAddr())
		if !host.IsValid() {
			where = fmt.Sprintf("connection %d", n)
		}
		away := func() { f.rejectConn(c, where) }
		place, err := f.gate.Enter(host, away)
		if err != nil {
			away()
			continue
		}
		place.SetYielding(true)
		f.wg.Go(func() {
			defer place.Leave()
			_, _ = f.serve(c.(frontendConn), where, place) // serve logs and counts its errors
		})
	}
}

// rejectConn closes a connection for which there is no room.
func (f *feed) rejectConn(c net.Conn, where string) {
	f.countRefusal(where, "others came, and it had not said hello")
	f.logThrottled(&f.crowdLog, slog.LevelWarn, "a connection is closed, since too many are open", "at", where, "most",
		maxConns,
		"most of one host", maxPerHost)
	_ = c.Close()
}
