package main

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"ringlet/clients/frontend"
	"ringlet/node/certs"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
	samplev1 "ringlet/proto/ringlet/sample/v1"
	tapv1 "ringlet/proto/ringlet/tap/v1"
)

// Outcomes for a stranger.
const (
	outcomeClosed   = "closed"
	outcomeAnswered = "answered"
	outcomeSilent   = "silent"
	outcomeRefused  = "refused"
	outcomeAdmitted = "let in"
)

// everyPort makes an attack that does the same at each TCP port, and at the source unix:, in parallel.
func everyPort(do func(net.Conn, *dice) string) func(context.Context, *hostileRun, *dice) (map[string]int, error) {
	return func(ctx context.Context, h *hostileRun, d *dice) (map[string]int, error) {
		conns, came, err := h.connectAll(1)
		if err != nil {
			return nil, err
		}
		var mu sync.Mutex
		var all sync.WaitGroup
		defer all.Wait()
		for _, c := range conns {
			_ = c.SetDeadline(time.Now().Add(h.attackDuration))
			forked := d.fork()
			all.Go(func() {
				defer func() { _ = c.Close() }()
				word := do(c, forked)
				mu.Lock()
				defer mu.Unlock()
				came[word]++
			})
		}
		all.Wait()
		return came, ctx.Err()
	}
}

// connectAll makes that many connections to each port.
func (h *hostileRun) connectAll(times int) (conns []net.Conn, came map[string]int, err error) {
	ports, err := h.listening("tcp")
	if err != nil {
		return nil, nil, err
	}
	came = map[string]int{}
	for _, at := range append(ports, strings.TrimPrefix(h.sourceAddrs[2], "unix:")) {
		network := "tcp"
		if strings.HasPrefix(at, "/") {
			network = "unix"
		}
		for range times {
			c, err := net.DialTimeout(network, at, h.attackDuration)
			if err != nil {
				came[outcomeRefused]++
				continue
			}
			conns = append(conns, c)
		}
	}
	return conns, came, nil
}

// awaitAnswer reads until the connection ends, or its deadline passes.
func awaitAnswer(c net.Conn) string {
	n, err := io.Copy(io.Discard, io.LimitReader(c, 1<<20))
	switch {
	case n > 0:
		return outcomeAnswered
	case errors.Is(err, os.ErrDeadlineExceeded):
		return outcomeSilent
	}
	return outcomeClosed
}

func randomBytes(c net.Conn, d *dice) string {
	_, _ = c.Write(d.bytes(1 + d.IntN(1<<16))) // the service may have closed the connection
	return awaitAnswer(c)
}

func plainHTTP(c net.Conn, d *dice) string {
	path := d.pick("/", "/v1/status", "/v1/tap?rate=10000", "/v1/session", "/../../etc/passwd",
		strings.Repeat("/a", 1<<15))
	_, _ = io.WriteString(c, d.pick("GET ", "POST ", "PRI ")+path+
		" HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999999\r\n\r\n")
	return awaitAnswer(c)
}

func noCertificate(c net.Conn, d *dice) string {
	t := tls.Client(c, &tls.Config{
		InsecureSkipVerify: true,
		ServerName:         d.pick("n0", "control", "localhost"),
		NextProtos:         []string{"h2"},
	})
	if err := t.Handshake(); errors.Is(err, os.ErrDeadlineExceeded) {
		return outcomeSilent
	} else if err != nil {
		return outcomeRefused
	}
	// In TLS 1.3 a client learns only after the handshake that its certificate is missing.
	_, _ = io.WriteString(t, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
	return awaitAnswer(t)
}

// halfOpen sends the beginning of a valid message, and nothing more.
func halfOpen(c net.Conn, d *dice) string {
	_, _ = io.WriteString(c, d.pick("R", "RGLF", "GET / HT", "\x00\x00",
		"\x16\x03\x01\x02\x00", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
	if t, ok := c.(*net.TCPConn); ok && d.chance(50) {
		_ = t.CloseWrite()
	}
	return awaitAnswer(c)
}

func slowBytes(c net.Conn, d *dice) string {
	text := []byte(d.pick("\x16\x03\x01\x02\x00\x01\x00\x01\xfc", "GET / HTTP/1.1\r\n",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
	stop := make(chan struct{})
	var writing sync.WaitGroup
	writing.Go(func() {
		for _, b := range text {
			if _, err := c.Write([]byte{b}); err != nil {
				return
			}
			select {
			case <-stop:
				return
			case <-time.After(time.Second):
			}
		}
	})
	defer writing.Wait()
	defer close(stop)
	return awaitAnswer(c)
}

// idleConnections opens many connections and sends nothing.
func idleConnections(ctx context.Context, h *hostileRun, _ *dice) (map[string]int, error) {
	conns, came, err := h.connectAll(40)
	defer func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}()
	if err != nil {
		return nil, err
	}
	sleepFor(ctx, h.attackDuration)
	end := time.Now().Add(50 * time.Millisecond)
	for _, c := range conns {
		_ = c.SetDeadline(end)
		came[awaitAnswer(c)]++
	}
	return came, nil
}

// strangeFrontEnds connect to sources as front-ends, and send wild event numbers.
func strangeFrontEnds(ctx context.Context, h *hostileRun, d *dice) (map[string]int, error) {
	came := map[string]int{}
	for _, at := range []string{h.sourceAddrs[0], h.sourceAddrs[2], h.extraTCPAddr} {
		limit, cancel := context.WithTimeout(ctx, h.attackDuration)
		s, err := frontend.Dial(limit, at, frontend.StreamSettings{Name: "stranger", Source: uint16(d.IntN(8))})
		if err != nil {
			came[outcomeRefused]++
		} else {
			came[outcomeAdmitted]++
			_ = s.Send(limit, d.Uint64(), d.bytes(d.IntN(1<<16))) // the readout unit may have closed the stream
			_ = s.Leave(limit)
		}
		cancel()
	}
	return came, nil
}

// stuckReaders open streams of the API as a user, and do not read them.
func stuckReaders(ctx context.Context, h *hostileRun, d *dice) (map[string]int, error) {
	id, err := certs.Load(h.c.path("keys"), operatorName)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	came := map[string]int{}
	for range 4 {
		o, err := dialOperator(h.c.operator.conn.CanonicalTarget()[len("passthrough:///"):], id, h.c.hosts[controlName].dial)
		if err != nil {
			return nil, err
		}
		defer o.close()
		_, err1 := o.api.Tap(ctx, &tapv1.Selection{Rate: 10000, Data: true})
		_, err2 := o.api.WatchSnapshots(ctx, &ecsv1.WatchSnapshotsRequest{IntervalMs: 1})
		_, err3 := o.api.Watch(ctx, &ecsv1.WatchRequest{After: 1, Logs: true})
		_, err4 := o.api.Sample(ctx, &samplev1.Question{Node: "n2"})
		for _, err := range []error{err1, err2, err3, err4} {
			if err != nil {
				came[outcomeRefused]++
			} else {
				came["open"]++
			}
		}
	}
	sleepFor(ctx, h.attackDuration)
	return came, nil
}
