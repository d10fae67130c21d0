package quic

// A sender sends a batch of packets of one size, the last maybe shorter, in one system call (UDP_SEGMENT), or one by
// one if the kernel or the interface lacks it.

import (
	"encoding/binary"
	"errors"
	"net"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// maxGSO is the most bytes of one send: the largest IP packet, less the headers of IPv6 and UDP.
	maxGSO = 1<<16 - 1 - 40 - 8
	// maxSegments is UDP_MAX_SEGMENTS of kernels before 6.9; later ones have 128.
	maxSegments = 64
)

// sender is owned by the goroutine that sends for the link.
type sender struct {
	sock *socket
	raw  syscall.RawConn
	gso  bool
	// nonBlocking: it waits neither for space in the socket's buffer nor for other senders that wait.
	nonBlocking bool
	sendFunc    func(fd uintptr) bool

	buf          []byte // the batch
	n            int    // bytes in it
	segment      int    // size of its first packet
	batchPackets int
	batchUrgent  bool // every packet in it is urgent: acks, answers, signals
	pathHasQueue bool // packets may wait in a queue on their way, where the mark helps

	sockaddr    [unix.SizeofSockaddrInet6]byte
	sockaddrLen uint32
	control     [2 * controlSize]byte // the mark of urgent packets, then the segment size
	msg         unix.Msghdr
	iov         unix.Iovec
	errno       syscall.Errno
}

// controlSize is the size of a control message with a number, bytes.
const controlSize = unix.SizeofCmsghdr + 8

// lowDelayTOS marks a packet for the first band of a host's queue (Linux's default, pfifo_fast, obeys it: tc-prio(8))
// and of switches that look at it. Behind a megabyte of data in the queue of a slow port an ack, a barrier's message or
// a tag waits 40 ms at 200 Mbit/s. Over IPv6 only switches obey it: the mark does not set the priority that the host's
// own queue uses.
const lowDelayTOS = 0x10

func newSender(s *socket, to *net.UDPAddr, bufSize int) *sender {
	o := &sender{
		sock: s,
		raw:  s.raw,
		gso:  true,
		buf:  make([]byte, bufSize),
		// The loopback interface has no queue. There the mark would cost 0.1 µs per packet (2026-11-26).
		pathHasQueue: !to.IP.IsLoopback(),
	}
	o.putSockaddr(to)
	mark := (*unix.Cmsghdr)(unsafe.Pointer(&o.control[0]))
	mark.Level, mark.Type = unix.IPPROTO_IP, unix.IP_TOS
	if to.IP.To4() == nil {
		mark.Level, mark.Type = unix.IPPROTO_IPV6, unix.IPV6_TCLASS
	}
	mark.SetLen(unix.CmsgLen(4))
	binary.NativeEndian.PutUint32(o.control[unix.CmsgLen(0):], lowDelayTOS)
	h := (*unix.Cmsghdr)(unsafe.Pointer(&o.control[controlSize]))
	h.Level, h.Type = unix.IPPROTO_UDP, unix.UDP_SEGMENT
	h.SetLen(unix.CmsgLen(2))
	o.sendFunc = o.sendmsg
	return o
}

// putSockaddr writes the address in the kernel's form for the family of the socket.
func (o *sender) putSockaddr(to *net.UDPAddr) {
	family := unix.AF_INET
	_ = o.raw.Control(func(fd uintptr) {
		if f, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_DOMAIN); err == nil {
			family = f
		}
	})
	if ip := to.IP.To4(); ip != nil && family == unix.AF_INET {
		a := (*unix.RawSockaddrInet4)(unsafe.Pointer(&o.sockaddr[0]))
		a.Family, a.Addr = unix.AF_INET, [4]byte(ip)
		binary.BigEndian.PutUint16((*[2]byte)(unsafe.Pointer(&a.Port))[:], uint16(to.Port))
		o.sockaddrLen = unix.SizeofSockaddrInet4
		return
	}
	a := (*unix.RawSockaddrInet6)(unsafe.Pointer(&o.sockaddr[0]))
	a.Family, a.Addr = unix.AF_INET6, [16]byte(to.IP.To16())
	binary.BigEndian.PutUint16((*[2]byte)(unsafe.Pointer(&a.Port))[:], uint16(to.Port))
	if to.Zone != "" {
		if i, err := net.InterfaceByName(to.Zone); err == nil {
			a.Scope_id = uint32(i.Index)
		}
	}
	o.sockaddrLen = unix.SizeofSockaddrInet6
}

// flush sends the batch and empties it. Packets that the kernel refuses for want of memory are counted and lost; the
// link repairs them.
func (o *sender) flush() error {
	if o.n == 0 {
		return nil
	}
	b, segment, packets := o.buf[:o.n], o.segment, o.batchPackets
	o.n, o.batchPackets = 0, 0
	if packets == 1 || o.gso {
		err := o.write(b, segment, packets)
		if !errors.Is(err, syscall.EIO) && !errors.Is(err, syscall.EINVAL) || packets == 1 {
			return o.classifySendError(err, packets)
		}
	}
	return o.sendSingly(b, segment)
}

// sendSingly sends the packets of a batch one by one, after a send of the whole batch has failed. If the kernel accepts
// one of full size, UDP_SEGMENT is the cause, and later batches do without it; if all are too long, the interface's MTU
// has shrunk.
func (o *sender) sendSingly(b []byte, segment int) error {
	went := false
	for len(b) > 0 {
		one := b[:min(segment, len(b))]
		b = b[len(one):]
		err := o.write(one, segment, 1)
		went = went || err == nil && len(one) == segment
		if err := o.classifySendError(err, 1); err != nil {
			return err
		}
	}
	o.gso = o.gso && !went
	return nil
}

// classifySendError returns nil for errors that may pass, after which the link repairs the loss.
func (o *sender) classifySendError(err error, packets int) error {
	if err == nil {
		increment(&o.sock.stats.SendCalls)
		atomic.AddUint64(&o.sock.stats.SentPackets, uint64(packets))
		return nil
	}
	var e syscall.Errno
	if !errors.As(err, &e) {
		return err
	}
	switch e {
	case syscall.ENOBUFS, syscall.ENOMEM, syscall.EPERM, syscall.ENETUNREACH, syscall.EHOSTUNREACH, syscall.ENETDOWN,
		syscall.EMSGSIZE: // the interface's MTU has shrunk: the link finds out, and sends smaller packets
		atomic.AddUint64(&o.sock.stats.SendRefused, uint64(packets))
		return nil
	}
	return err
}

// write makes the system call, and waits for space in the socket's buffer.
func (o *sender) write(b []byte, segment, packets int) error {
	o.iov.Base = &b[0]
	o.iov.SetLen(len(b))
	o.msg = unix.Msghdr{Name: &o.sockaddr[0], Namelen: o.sockaddrLen, Iov: &o.iov}
	o.msg.SetIovlen(1)
	from, to := controlSize, controlSize
	if o.batchUrgent && o.pathHasQueue {
		from = 0
	}
	if packets > 1 {
		binary.NativeEndian.PutUint16(o.control[controlSize+unix.CmsgLen(0):], uint16(segment))
		to = 2 * controlSize
	}
	if from < to {
		o.msg.Control = &o.control[from]
		o.msg.SetControllen(to - from)
	}
	if err := o.call(); err != nil {
		return err
	}
	if o.errno != 0 {
		return o.errno
	}
	return nil
}

func (o *sender) call() error {
	if o.nonBlocking {
		return o.raw.Control(func(fd uintptr) { o.sendFunc(fd) })
	}
	return o.raw.Write(o.sendFunc)
}

// sendmsg does not wait, so the runtime need not know of the call: see socket.recvmsg.
func (o *sender) sendmsg(fd uintptr) bool {
	for {
		_, _, e := unix.RawSyscall(unix.SYS_SENDMSG, fd, uintptr(unsafe.Pointer(&o.msg)), unix.MSG_DONTWAIT)
		switch e {
		case unix.EINTR:
			continue
		case unix.EAGAIN:
			if !o.nonBlocking {
				return false
			}
		}
		o.errno = e
		return true
	}
}
