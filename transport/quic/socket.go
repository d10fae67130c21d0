package quic

// The socket under quic-go. Pipeline of a read:
//
//	1 recvmsg with UDP_GRO  (sequential, quic-go's reader)  up to 64 KiB of equal packets into the socket's own buffer
//	2 dispatch              (sequential)                    runs of packets of sessions, by their connection IDs
//	3 ReadBatch             (sequential)                    the others into quic-go's buffers; the rest waits here
//
// One system call reads up to 45 packets instead of one. Without UDP_GRO in the kernel it reads one packet; all else
// stays the same. Writes pass unchanged and are counted, since quic-go does not report whether it uses GSO.

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"

	"ringlet/internal/netyield"
	"ringlet/transport/express"
)

// socket is a UDP socket that reads many packets per system call.
type socket struct {
	// immutable after newSocket
	*net.UDPConn
	raw            syscall.RawConn
	gro            bool
	spin           time.Duration
	recvOrIdleFunc func(fd uintptr) bool                                   // recvOrIdle
	recvOnceFunc   func(fd uintptr) bool                                   // recvOnce
	dispatch       func(buf, packets []byte, segment int, all bool) []byte // handles packets of sessions
	// called before the reader waits, if dispatch was called since
	onIdle func()
	paths  pathTable

	// owned by quic-go's reader
	buf            []byte // read by the last recvmsg
	undelivered    []byte // the part of buf that has not been passed on
	segment        int    // size of each packet in undelivered; the last may be shorter
	oob            [256]byte
	control        []byte // control messages of the last recvmsg, without UDP_GRO's
	from           *net.UDPAddr
	fromRaw        netip.AddrPort
	msg            unix.Msghdr
	iov            unix.Iovec
	sockaddr       unix.RawSockaddrInet6
	n              int
	errno          syscall.Errno
	lastReadEmpty  bool // the last recvmsg found no packet
	idleDue        bool // dispatch was called since the last onIdle
	lastReadWaited bool // the reader had to wait for the last read
	timestamps     timestamps

	stats SocketStats // atomic
}

// SocketStats counts system calls and the packets they moved.
type SocketStats struct {
	SendCalls   uint64 `help:"system calls that send; fewer than packets where segmentation offload works"`
	SentPackets uint64 `help:"packets sent"`
	RecvCalls   uint64 `help:"system calls that receive"`
	RecvPackets uint64 `help:"packets received"`
	SendRefused uint64 `count:"not_taken" help:"packets that the kernel did not take, for want of memory or route; sent again"`
}

func newSocket(c *net.UDPConn, gro bool, spin time.Duration,
	bulk func(buf, packets []byte, segment int, all bool) []byte, dry func()) *socket {
	s := &socket{
		UDPConn:  c,
		spin:     spin,
		dispatch: bulk,
		onIdle:   dry,
		buf:      make([]byte, readSize),
		from:     &net.UDPAddr{},
	}
	// If the kernel gives a smaller buffer (net.core.rmem_max), more datagrams are lost and repaired.
	_ = c.SetReadBuffer(socketBuf)
	_ = c.SetWriteBuffer(socketBuf)
	raw, err := c.SyscallConn()
	if err != nil {
		return s // the socket is closed: the first read returns the error
	}
	s.raw = raw
	if gro {
		_ = raw.Control(func(fd uintptr) {
			s.gro = unix.SetsockoptInt(int(fd), unix.IPPROTO_UDP, unix.UDP_GRO, 1) == nil
		})
	}
	s.recvOrIdleFunc, s.recvOnceFunc = s.recvOrIdle, s.recvOnce
	return s
}

// ReadBatch is the method that quic-go calls on a socket that reads in batches.
func (s *socket) ReadBatch(ms []ipv4.Message, _ int) (int, error) {
	n := 0
	for n == 0 {
		if len(s.undelivered) == 0 {
			if err := s.fill(); err != nil {
				return 0, err
			}
		}
		n = s.distribute(ms)
	}
	atomic.AddUint64(&s.stats.RecvPackets, uint64(n))
	return n, nil
}

// distribute passes packets of sessions to dispatch, halves to their path, and as many others as ms has places to
// quic-go.
func (s *socket) distribute(ms []ipv4.Message) int {
	n := 0
	for n < len(ms) && len(s.undelivered) > 0 {
		if express.IsSession(s.undelivered) {
			s.dispatchSessions()
			continue
		}
		p := s.undelivered[:min(s.segment, len(s.undelivered))]
		s.undelivered = s.undelivered[len(p):]
		if isPathPacket(p) {
			if p = s.paths.receive(p); p == nil {
				continue
			}
		}
		m := &ms[n]
		m.N = copy(m.Buffers[0], p)
		m.NN = copy(m.OOB, s.control)
		m.Addr, m.Flags = s.from, 0
		n++
	}
	return n
}

// dispatchSessions passes on the run of packets of sessions at the beginning of undelivered.
func (s *socket) dispatchSessions() {
	end, n := 0, uint64(0)
	for end < len(s.undelivered) && express.IsSession(s.undelivered[end:]) {
		end = min(end+s.segment, len(s.undelivered))
		n++
	}
	atomic.AddUint64(&s.stats.RecvPackets, n)
	all := end == s.n
	buf := s.dispatch(s.buf, s.undelivered[:end], s.segment, all)
	if s.undelivered, s.idleDue = s.undelivered[end:], true; all {
		s.buf = buf
	}
}

// fill reads from the kernel, and waits until packets arrive.
func (s *socket) fill() error {
	s.timestamps.recordDelay()
	for {
		if err := s.readNext(); err != nil {
			return err
		}
		if s.errno != 0 {
			return &net.OpError{
				Op:   "read",
				Net:  "udp",
				Addr: s.LocalAddr(),
				Err:  s.errno,
			}
		}
		increment(&s.stats.RecvCalls)
		s.segment = max(s.n, 1)
		s.parseControl()
		s.parseFrom()
		if s.n > 0 {
			s.undelivered = s.buf[:s.n]
			return nil
		}
	}
}

// readNext makes one read: it takes packets that have arrived, or reports idle and waits for some.
func (s *socket) readNext() error {
	if s.spin > 0 {
		if s.idleDue {
			if s.lastReadWaited && s.n <= s.segment {
				// The reader had waited for this one packet, and another goroutine may have waited for nothing else: it runs before
				// the kernel is asked for more, which takes a microsecond. In a stream of packets the reader goes on: with many
				// other goroutines ready, it would come back too late.
				runtime.Gosched()
			}
			if err := s.raw.Read(s.recvOnceFunc); err != nil || !s.lastReadEmpty {
				s.lastReadWaited = false
				return err
			}
			s.reportIdle()
		}
		s.lastReadWaited = true
		if got, err := s.poll(); err != nil || got {
			return err
		}
	}
	return s.raw.Read(s.recvOrIdleFunc)
}

// reportIdle calls onIdle: no packets are at hand.
func (s *socket) reportIdle() {
	s.idleDue = false
	s.onIdle()
}

// recvOrIdle reads, or calls onIdle before the reader waits. Both are one attempt of the runtime, so a packet that
// arrives during onIdle wakes the reader.
func (s *socket) recvOrIdle(fd uintptr) bool {
	if s.recvmsg(fd) {
		return true
	}
	if s.idleDue {
		s.reportIdle()
	}
	return false
}

// receiveSpace is how many bytes of packets the kernel can keep for the reader: half of its buffer, since its own
// overhead takes about as much.
func (s *socket) receiveSpace() int {
	n := 0
	_ = s.raw.Control(func(fd uintptr) { n, _ = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF) })
	return n / 2
}

// kernelDrops is how many packets the kernel has dropped because its buffer was full; 0 if the kernel does not tell, or
// the socket is closed.
func (s *socket) kernelDrops() (dropped uint64) {
	if s.raw == nil {
		return 0
	}
	// SK_MEMINFO_DROPS of linux/sock_diag.h. /proc/net/udp has the same number, in a table of all sockets of the host.
	const at, words = 8, 9
	_ = s.raw.Control(func(fd uintptr) {
		var info [words]uint32
		size := uint32(unsafe.Sizeof(info))
		_, _, e := unix.RawSyscall6(unix.SYS_GETSOCKOPT, fd, unix.SOL_SOCKET, unix.SO_MEMINFO,
			uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&size)), 0)
		if e == 0 && uintptr(size) == unsafe.Sizeof(info) {
			dropped = uint64(info[at])
		}
	})
	return dropped
}

// poll looks for packets for the time of spin, and lets other goroutines run in between. Falling asleep and waking up
// takes tens of microseconds, which both ends of a link would otherwise pay in turn for each full credit.
func (s *socket) poll() (bool, error) {
	if s.spin == 0 {
		return false, nil
	}
	const looks = 8 // between two looks at the clock
	// The first look comes before other goroutines run: often more packets have arrived, and quic-go's goroutines run
	// long.
	for end := time.Now().Add(s.spin); time.Now().Before(end); netyield.Yield() {
		for range looks {
			if err := s.raw.Read(s.recvOnceFunc); err != nil {
				return false, err
			}
			if !s.lastReadEmpty {
				return true, nil
			}
			runtime.Gosched()
		}
	}
	return false, nil
}

// recvOnce makes the system call once, whether or not a packet is there.
func (s *socket) recvOnce(fd uintptr) bool {
	s.lastReadEmpty = !s.recvmsg(fd)
	return true
}

// recvmsg makes the system call without waiting; between attempts the runtime waits for readiness. The runtime is not
// told of the call: in an idle process that would wake its monitor thread, which then looks every 20 µs. With 29 nodes
// on two cores two thirds of all context switches were that thread's (docs/design/013-hot-path.md).
func (s *socket) recvmsg(fd uintptr) bool {
	s.iov.Base = &s.buf[0]
	s.iov.SetLen(len(s.buf))
	s.msg = unix.Msghdr{Name: (*byte)(unsafe.Pointer(&s.sockaddr)), Namelen: uint32(unsafe.Sizeof(s.sockaddr)),
		Iov: &s.iov}
	s.msg.SetIovlen(1)
	s.msg.Control = &s.oob[0]
	s.msg.SetControllen(len(s.oob))
	for {
		n, _, e := unix.RawSyscall(unix.SYS_RECVMSG, fd, uintptr(unsafe.Pointer(&s.msg)), unix.MSG_DONTWAIT)
		switch e {
		case unix.EINTR:
			continue
		case unix.EAGAIN:
			return false
		}
		s.n, s.errno = int(n), e
		return true
	}
}

// parseControl reads the segment size and the time of receipt from the control messages, and keeps the others for
// quic-go.
func (s *socket) parseControl() {
	data := s.oob[:s.msg.Controllen]
	s.control = s.control[:0]
	for len(data) >= unix.SizeofCmsghdr {
		h := (*unix.Cmsghdr)(unsafe.Pointer(&data[0]))
		size := unix.CmsgSpace(int(h.Len) - unix.CmsgLen(0))
		if int(h.Len) < unix.CmsgLen(0) || int(h.Len) > len(data) {
			return
		}
		if h.Level == unix.IPPROTO_UDP && h.Type == unix.UDP_GRO {
			if g := int(binary.NativeEndian.Uint32(data[unix.CmsgLen(0):])); g > 0 {
				s.segment = g
			}
		} else if at, is := softwareTimestamp(h, data); is {
			s.timestamps.record(at)
		} else {
			s.control = append(s.control, data[:min(size, len(data))]...)
		}
		data = data[min(size, len(data)):]
	}
}

// parseFrom makes a new address only when the sender changes, since quic-go keeps addresses.
func (s *socket) parseFrom() {
	var a netip.AddrPort
	port := binary.BigEndian.Uint16((*[2]byte)(unsafe.Pointer(&s.sockaddr.Port))[:])
	if s.sockaddr.Family == unix.AF_INET {
		v4 := (*unix.RawSockaddrInet4)(unsafe.Pointer(&s.sockaddr))
		a = netip.AddrPortFrom(netip.AddrFrom4(v4.Addr), port)
	} else {
		a = netip.AddrPortFrom(netip.AddrFrom16(s.sockaddr.Addr), port)
	}
	if a != s.fromRaw {
		s.from, s.fromRaw = net.UDPAddrFromAddrPort(a), a
	}
}

// WriteMsgUDP passes a packet, or several of equal size, to the kernel and counts them; on a narrow path they go in
// halves.
func (s *socket) WriteMsgUDP(b, oob []byte, addr *net.UDPAddr) (int, int, error) {
	segment := segmentOf(len(b), oob)
	if w := s.paths.narrowPath(addr); w != nil {
		if err := w.write(b, segment); err != nil {
			return 0, 0, err
		}
		return len(b), len(oob), nil
	}
	increment(&s.stats.SendCalls)
	atomic.AddUint64(&s.stats.SentPackets, uint64((len(b)+segment-1)/segment))
	n, m, err := s.UDPConn.WriteMsgUDP(b, oob, addr)
	if err != nil && len(b) > segment && errors.Is(err, syscall.EINVAL) {
		// Some kernels return EINVAL when the interface's MTU has shrunk below the segments of a batch. quic-go ends the
		// connection for EINVAL, but not for EMSGSIZE: then the path is soon found to be narrow.
		err = os.NewSyscallError("sendmsg", syscall.EMSGSIZE)
	}
	return n, m, err
}

// segmentOf is the size of all packets but the last of a write of n bytes with these control messages.
func segmentOf(n int, oob []byte) int {
	for len(oob) >= unix.SizeofCmsghdr {
		h, body, rest, err := unix.ParseOneSocketControlMessage(oob)
		if err != nil {
			break
		}
		if h.Level == unix.IPPROTO_UDP && h.Type == unix.UDP_SEGMENT && len(body) >= 2 {
			if size := int(binary.NativeEndian.Uint16(body)); size > 0 {
				return size
			}
		}
		oob = rest
	}
	return max(1, n)
}
