package bench

// Memory behind a socket: requests and answers of the simplest kind. An owner in this process stores, loads and adds.
// Both sides spin on the socket as long as the carriers do.

import (
	"bufio"
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"ringlet/internal/address"
)

// requestKind says what a user asks of the owner of the memory. A request has 16 bytes: kind (u32), number of bytes
// (u32) and offset (u64). The data of a put or a message follow. The answer to a get is the bytes that were asked for;
// the answer to any other request has 8 bytes.
type requestKind uint32

const (
	requestPut requestKind = iota
	requestGet
	requestAdd
	requestMessage
)

const (
	requestSize = 16
	answerSize  = 8
	// maxUDPBytes is the most bytes that a datagram holds behind a request.
	maxUDPBytes = 65507 - requestSize
	// maxJoinedBytes is the longest put that is copied behind its request; the kernel joins longer ones.
	maxJoinedBytes = 16 << 10
	// answerTimeout is how long a user waits for an answer. A process may be suspended on a busy machine.
	answerTimeout = 10 * time.Second
)

// encodeRequest writes a request.
func encodeRequest(head []byte, kind requestKind, at int64, n int) {
	binary.LittleEndian.PutUint32(head, uint32(kind))
	binary.LittleEndian.PutUint32(head[4:], uint32(n))
	binary.LittleEndian.PutUint64(head[8:], uint64(at))
}

// socketOwner owns the memory and answers requests.
type socketOwner struct {
	mem          []byte
	spin         time.Duration
	addedWord    atomic.Uint64
	messageTimes chan time.Time // when messages were received
	wg           sync.WaitGroup

	mu     sync.Mutex // guards what follows
	open   []io.Closer
	closed bool
}

func newSocketOwner(mem []byte, spin time.Duration) *socketOwner {
	return &socketOwner{mem: mem, spin: spin, messageTimes: make(chan time.Time, 1)}
}

// track has close close a socket. It returns false if close was called before: it closes the socket itself then.
func (o *socketOwner) track(c io.Closer) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		_ = c.Close()
		return false
	}
	o.open = append(o.open, c)
	return true
}

func (o *socketOwner) close() {
	o.mu.Lock()
	o.closed = true
	for _, c := range o.open {
		_ = c.Close()
	}
	o.mu.Unlock()
	o.wg.Wait()
}

// decodeRequest reads a request: its kind, and the bytes that it is about. It returns false for a range outside of the
// memory, which no user here requests.
func (o *socketOwner) decodeRequest(head []byte) (requestKind, []byte, bool) {
	n, at := uint64(binary.LittleEndian.Uint32(head[4:])), binary.LittleEndian.Uint64(head[8:])
	if size := uint64(len(o.mem)); n > size || at > size-n {
		return 0, nil, false
	}
	return requestKind(binary.LittleEndian.Uint32(head)), o.mem[at:][:n], true
}

// answer returns the answer to a request whose bytes are in place. The answer to an addition may use word.
func (o *socketOwner) answer(kind requestKind, place, word []byte) []byte {
	switch kind {
	case requestGet:
		return place
	case requestAdd:
		binary.LittleEndian.PutUint64(word, o.addedWord.Add(1)-1)
	case requestMessage:
		select {
		case o.messageTimes <- time.Now():
		default: // not from a user here
		}
	}
	return word
}

// serveTCP answers the requests of one connection.
func (o *socketOwner) serveTCP(c *net.TCPConn) {
	defer func() { _ = c.Close() }()
	r, err := newSpinReader(c, o.spin, 0)
	if err != nil {
		return
	}
	in, head, word := bufio.NewReader(r), make([]byte, requestSize), make([]byte, answerSize)
	for {
		if _, err := io.ReadFull(in, head); err != nil {
			return
		}
		kind, place, ok := o.decodeRequest(head)
		if ok && (kind == requestPut || kind == requestMessage) {
			_, err = io.ReadFull(in, place)
		}
		if !ok || err != nil {
			return
		}
		if _, err = c.Write(o.answer(kind, place, word)); err != nil {
			return
		}
	}
}

// listenTCP accepts connections.
func (o *socketOwner) listenTCP(host string) (addr string, err error) {
	l, err := address.ListenTCP(net.JoinHostPort(host, "0"))
	if err != nil {
		return "", err
	}
	o.track(l)
	o.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if o.track(c) {
				o.wg.Go(func() { o.serveTCP(c.(*net.TCPConn)) })
			}
		}
	})
	return l.Addr().String(), nil
}

// listenUDP answers datagrams of the first sender.
func (o *socketOwner) listenUDP(host string) (addr string, err error) {
	c, err := listenUDP(host)
	if err != nil {
		return "", err
	}
	o.track(c)
	o.wg.Go(func() {
		word, first := make([]byte, answerSize), make([]byte, requestSize+maxUDPBytes)
		n, from, err := c.ReadFromUDPAddrPort(first)
		if err != nil {
			return
		}
		r, err := newSpinReader(c, o.spin, requestSize+maxUDPBytes)
		for d := first[:n]; err == nil; d, err = r.read() {
			if len(d) < requestSize {
				continue
			}
			kind, place, ok := o.decodeRequest(d)
			if !ok {
				continue
			}
			if kind == requestPut || kind == requestMessage {
				copy(place, d[requestSize:])
			}
			if _, err := c.WriteToUDPAddrPort(o.answer(kind, place, word), from); err != nil {
				return
			}
		}
	})
	return c.LocalAddr().String(), nil
}

// socketUser sends one request at a time.
type socketUser struct {
	conn       net.Conn
	in         *spinReader
	requestBuf []byte
	maxJoined  int // longest put that is copied behind its request
	deadline   time.Time
}

func newSocketUser(ctx context.Context, network, addr string, spin time.Duration, joined int) (*socketUser, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	in, err := newSpinReader(c.(syscall.Conn), spin, 0) // as all sockets are
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return &socketUser{
		conn:       c,
		in:         in,
		requestBuf: make([]byte, requestSize+joined),
		maxJoined:  joined,
	}, nil
}

// roundTrip sends a request with the bytes behind it, and reads the answer.
func (u *socketUser) roundTrip(kind requestKind, at int64, n int, bytes, answer []byte) (err error) {
	if now := time.Now(); u.deadline.Sub(now) < answerTimeout/2 { // the carriers do not spend the time that this takes
		u.deadline = now.Add(answerTimeout)
		_ = u.conn.SetDeadline(u.deadline)
	}
	head := u.requestBuf[:requestSize]
	encodeRequest(head, kind, at, n)
	if len(bytes) <= u.maxJoined {
		_, err = u.conn.Write(u.requestBuf[:requestSize+copy(u.requestBuf[requestSize:], bytes)])
	} else {
		buffers := net.Buffers{head, bytes}
		_, err = buffers.WriteTo(u.conn)
	}
	if err == nil {
		_, err = io.ReadFull(u.in, answer)
	}
	return err
}

// socketMemory is memory behind sockets, one socket for each worker.
type socketMemory struct {
	owner      *socketOwner
	users      []*socketUser
	answerBufs [][]byte // answers, by worker
}

// closeUsers closes the users' sockets, which ends their waiting for answers.
func (s *socketMemory) closeUsers() {
	for _, u := range s.users {
		_ = u.conn.Close()
	}
}

func (s *socketMemory) close() {
	s.closeUsers()
	s.owner.close()
}

// access returns the way to the memory.
func (s *socketMemory) access() *memoryAccess {
	return &memoryAccess{
		put: func(_ context.Context, worker int, at int64, b []byte) error {
			return s.users[worker].roundTrip(requestPut, at, len(b), b, s.answerBufs[worker])
		},
		get: func(_ context.Context, worker int, at int64, b []byte) error {
			return s.users[worker].roundTrip(requestGet, at, len(b), nil, b)
		},
		add: func(context.Context) error { return s.users[0].roundTrip(requestAdd, 0, 0, nil, s.answerBufs[0]) },
		message: func(_ context.Context, b []byte) (time.Duration, error) {
			began := time.Now()
			if err := s.users[0].roundTrip(requestMessage, 0, len(b), b, s.answerBufs[0]); err != nil {
				return 0, err
			}
			return (<-s.owner.messageTimes).Sub(began), nil // the owner sends it before the answer
		},
	}
}

// measureSockets measures memory whose owner answers requests over sockets: concurrency users, each with a socket of
// its own.
func measureSockets(ctx context.Context, c *MemoryConfig, mem []byte, network string, concurrency int,
	into *memoryReferenceRows) (
	err error) {
	s := &socketMemory{owner: newSocketOwner(mem, c.Spin)}
	defer s.close()
	listen, joined := s.owner.listenTCP, maxJoinedBytes
	if network == "udp" {
		listen, joined = s.owner.listenUDP, maxUDPBytes
	}
	addr, err := listen(c.Host)
	if err != nil {
		return err
	}
	for range concurrency {
		u, err := newSocketUser(ctx, network, addr, c.Spin, joined)
		if err != nil {
			return err
		}
		s.users, s.answerBufs = append(s.users, u), append(s.answerBufs, make([]byte, answerSize))
	}
	defer context.AfterFunc(ctx, s.closeUsers)()
	m := s.access()
	if network == "udp" {
		m.maxSize = maxUDPBytes
	} else {
		m.concurrency = concurrency
	}
	return c.measureAccess(ctx, m, &into.AddTime, &into.Rows)
}

func measureTCP(ctx context.Context, c *MemoryConfig, mem []byte, into *memoryReferenceRows) error {
	return measureSockets(ctx, c, mem, "tcp", c.Concurrency, into)
}

func measureUDP(ctx context.Context, c *MemoryConfig, mem []byte, into *memoryReferenceRows) error {
	return measureSockets(ctx, c, mem, "udp", 1, into)
}
