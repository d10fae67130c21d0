package quic

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sys/unix"
)

// timestamps are the kernel's times of packets (SO_TIMESTAMPING), for who measures: software times, taken when a packet
// is given to the device and when it comes from there. They are of the wall clock, ns since 1970.
type timestamps struct {
	enabled      bool         // immutable
	lastReceived atomic.Int64 // of the packets that the last read brought
	delays       atomic.Pointer[queueDelays]
	pendingSince int64 // owned by the reader: received of the packets that are being taken in; 0: nobody wants it
}

// queueDelays counts how long packets lay in the socket and were taken in, µs.
type queueDelays struct {
	mu        sync.Mutex // guards of
	histogram *hdr.Histogram
}

// maxQueueDelay is the longest that is told apart: no packet that waits for longer is of use to anybody.
const maxQueueDelay = 10 * time.Second

func newQueueDelays() *queueDelays {
	return &queueDelays{histogram: hdr.New(1, maxQueueDelay.Microseconds(), 2)}
}

// Stamps of receiving, and those of sending without the packet, which would have to be copied.
const (
	rxTimestampFlags  = unix.SOF_TIMESTAMPING_RX_SOFTWARE | unix.SOF_TIMESTAMPING_SOFTWARE
	allTimestampFlags = rxTimestampFlags | unix.SOF_TIMESTAMPING_TX_SOFTWARE | unix.SOF_TIMESTAMPING_OPT_TSONLY
)

// enableTimestamps asks the kernel for stamps of a socket.
func (s *socket) enableTimestamps(flags int) error {
	if s.raw == nil {
		return net.ErrClosed
	}
	var err error
	if closed := s.raw.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPING, flags)
	}); closed != nil || err != nil {
		return errors.Join(closed, err)
	}
	return nil
}

// MeasureQueueDelays has the kernel note when packets come, and counts from now on how long they are in this host
// before they are taken in; false ends that.
func (n *Network) MeasureQueueDelays(wanted bool) error {
	s := n.sock
	if !wanted {
		if s.timestamps.delays.Swap(nil) == nil {
			return nil
		}
		return s.enableTimestamps(0)
	}
	s.timestamps.delays.Store(newQueueDelays())
	return s.enableTimestamps(rxTimestampFlags)
}

// QueueDelays is how long packets were in this host, µs: from when the kernel had them until what the same read brought
// was taken in, or handed to the goroutine of its link where there are more than two processors. Nil where nobody
// asked.
func (n *Network) QueueDelays() *hdr.Histogram {
	w := n.sock.timestamps.delays.Load()
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.histogram.Clone()
}

// record takes the kernel's time of the packets that a read has brought.
func (s *timestamps) record(at int64) {
	s.lastReceived.Store(at)
	if s.delays.Load() != nil {
		s.pendingSince = at
	}
}

// recordDelay notes that what the last read brought has been taken in.
func (s *timestamps) recordDelay() {
	if s.pendingSince == 0 {
		return
	}
	us := (time.Now().UnixNano() - s.pendingSince) / int64(time.Microsecond)
	s.pendingSince = 0
	if w := s.delays.Load(); w != nil {
		w.mu.Lock()
		_ = w.histogram.RecordValue(min(max(us, 0), maxQueueDelay.Microseconds())) // the wall clock may have been set
		w.mu.Unlock()
	}
}

// softwareTimestamp takes the software time out of a control message, ns; false where it is another message.
func softwareTimestamp(h *unix.Cmsghdr, message []byte) (int64, bool) {
	at := unix.CmsgLen(0)
	if h.Level != unix.SOL_SOCKET || h.Type != unix.SCM_TIMESTAMPING ||
		len(message) < at+int(unsafe.Sizeof(unix.Timespec{})) {
		return 0, false
	}
	// Control messages stand where a machine word may: the kernel pads them.
	return (*unix.Timespec)(unsafe.Pointer(&message[at])).Nano(), true
}

// LastReceiveTime is when the kernel had the packets that the last read brought, ns since 1970; 0 where
// Config.Timestamps is not set, or none came. The handler of a write may ask. The kernel begins a moment after it was
// asked: the first packets may be without.
func (n *Network) LastReceiveTime() int64 { return n.sock.timestamps.lastReceived.Load() }

// AppendSendTimes appends when the kernel sent packets since the last call, ns since 1970. Who has set
// Config.Timestamps calls it again and again, since the kernel keeps these times in the room that it has for packets.
func (n *Network) AppendSendTimes(to []int64) []int64 {
	s := n.sock
	if !s.timestamps.enabled {
		return to
	}
	var oob [256]byte
	_ = s.raw.Control(func(fd uintptr) {
		for {
			_, used, _, _, err := unix.Recvmsg(int(fd), nil, oob[:], unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
			if err == unix.EINTR {
				continue
			}
			if err != nil {
				return // no more are there
			}
			for data := oob[:used]; len(data) >= unix.SizeofCmsghdr; {
				h := (*unix.Cmsghdr)(unsafe.Pointer(&data[0]))
				if int(h.Len) < unix.CmsgLen(0) || int(h.Len) > len(data) {
					break
				}
				if at, is := softwareTimestamp(h, data); is {
					to = append(to, at)
				}
				data = data[min(unix.CmsgSpace(int(h.Len)-unix.CmsgLen(0)), len(data)):]
			}
		}
	})
	return to
}
