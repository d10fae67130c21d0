package lineserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"ringlet/event/slowdata"
	"ringlet/internal/address"
	"ringlet/internal/connlimit"
)

const (
	// maxConns is how many senders a server has at once; one host has a quarter of them at most.
	maxConns = 256
	// acceptPause is how long the server waits after accept failed, for example for want of file descriptors.
	acceptPause = 100 * time.Millisecond
)

// keepAlive detects within 11 s that a sender's host has vanished.
var keepAlive = net.KeepAliveConfig{
	Enable:   true,
	Idle:     5 * time.Second,
	Interval: 2 * time.Second,
	Count:    3,
}

// Config of a server.
type Config struct {
	// Address is HOST:PORT, or unix:PATH: a socket for the processes of this user.
	Address string
	// Keep keeps values, and returns for each of them nil, or why it is not kept, a sentence. It waits as long as it is
	// open whether they can be kept, at most until ctx ends. Any goroutine calls it.
	Keep func(ctx context.Context, values []slowdata.Value) []error
	Log  *slog.Logger
}

// Server takes slow data.
type Server struct {
	cfg Config
	lis net.Listener
	ctx context.Context
	end context.CancelFunc
	wg  sync.WaitGroup
}

// Listen opens a server and serves until Close.
func Listen(cfg Config) (*Server, error) {
	s := &Server{cfg: cfg}
	s.ctx, s.end = context.WithCancel(context.Background())
	lis, err := s.listen()
	if err != nil {
		s.end()
		return nil, fmt.Errorf("slow data cannot be taken at %s: %w", cfg.Address, err)
	}
	if !address.IsLocalOnly(lis.Addr()) {
		cfg.Log.Warn("any host that reaches this address can send slow data: listen on loopback, or keep it in a network of "+
			"the experiment", "address", lis.Addr())
	}
	gate := &connlimit.Gate{MaxTotal: maxConns, MaxPerHost: maxConns / 4}
	s.lis = connlimit.ListenWith(lis, gate, cfg.Log.With("service", "slow data"))
	s.wg.Go(s.accept)
	return s, nil
}

func (s *Server) listen() (net.Listener, error) {
	lc := net.ListenConfig{KeepAliveConfig: keepAlive}
	path, isSocket := strings.CutPrefix(s.cfg.Address, "unix:")
	if !isSocket {
		return address.Listen(s.ctx, lc, s.cfg.Address)
	}
	if err := address.RemoveStaleSocket(s.ctx, path); err != nil {
		return nil, err
	}
	lis, err := lc.Listen(s.ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, lis.Close())
	}
	return lis, nil
}

// Addr is the address of the server, as HOST:PORT or unix:PATH.
func (s *Server) Addr() string {
	at := s.lis.Addr()
	if at.Network() == "unix" {
		return "unix:" + at.String()
	}
	return at.String()
}

// Close ends the server and its connections. Values under way may be kept, unanswered.
func (s *Server) Close() {
	s.end()
	_ = s.lis.Close()
	s.wg.Wait()
}

func (s *Server) accept() {
	for s.ctx.Err() == nil {
		c, err := s.lis.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			if s.ctx.Err() == nil {
				s.cfg.Log.Error("no more slow data are taken: start the control anew", "address", s.cfg.Address, "err", err)
			}
			return
		case err != nil:
			s.cfg.Log.Warn("a sender of slow data could not be accepted", "err", err)
			s.pause(acceptPause)
			continue
		}
		s.wg.Go(func() {
			defer context.AfterFunc(s.ctx, func() { _ = c.Close() })()
			defer func() { _ = c.Close() }()
			newSender(c).serve(s.ctx, s.cfg.Keep, s.pause)
		})
	}
}

// pause waits, or returns earlier when the server ends.
func (s *Server) pause(d time.Duration) {
	select {
	case <-time.After(d):
	case <-s.ctx.Done():
	}
}
