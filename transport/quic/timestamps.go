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

// timestamps are the kernel's times of packets (SO_TIMESTAMPING), for measurements: software times, taken when the
// kernel passes a packet to the device or gets one from it. They are wall-clock times, ns since 1970.
type timestamps struct {
	enabled      bool         // immutable
	lastReceived atomic.Int64 // when the kernel received the packets of the last read
	delays       atomic.Pointer[queueDelays]
	pendingSince int64 // owned by the reader: lastReceived while their packets are being handled; 0: no measurement
}

// queueDelays is a histogram of the time from the kernel's receipt of packets to the end of their handling, µs.
type queueDelays struct {
	mu        sync.Mutex // guards histogram
	histogram *hdr.Histogram
}

// maxQueueDelay is the histogram's limit: a packet that waits longer is useless.
const maxQueueDelay = 10 * time.Second

func newQueueDelays() *queueDelays {
	return &queueDelays{histogram: hdr.New(1, maxQueueDelay.Microseconds(), 2)}
}

// Flags for times of receipt, and for times of sending without a copy of the packet.
const (
	rxTimestampFlags  = unix.SOF_TIMESTAMPING_RX_SOFTWARE | unix.SOF_TIMESTAMPING_SOFTWARE
	allTimestampFlags = rxTimestampFlags | unix.SOF_TIMESTAMPING_TX_SOFTWARE | unix.SOF_TIMESTAMPING_OPT_TSONLY
)

// enableTimestamps asks the kernel for times of the socket's packets.
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

// MeasureQueueDelays begins a histogram of the time from the kernel's receipt of packets to the end of their handling;
// wanted = false ends it.
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

// QueueDelays returns that histogram, µs: from the kernel's receipt until the packets of the same read were handled, or
// with more than two processors passed to the goroutine of their link. It is nil unless MeasureQueueDelays is on.
func (n *Network) QueueDelays() *hdr.Histogram {
	w := n.sock.timestamps.delays.Load()
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.histogram.Clone()
}

// record notes the kernel's time of the packets of a read.
func (s *timestamps) record(at int64) {
	s.lastReceived.Store(at)
	if s.delays.Load() != nil {
		s.pendingSince = at
	}
}

// recordDelay adds the delay of the last read, whose packets have been handled, to the histogram.
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

// softwareTimestamp returns the software time in a control message, ns; false if it is another message.
func softwareTimestamp(h *unix.Cmsghdr, message []byte) (int64, bool) {
	at := unix.CmsgLen(0)
	if h.Level != unix.SOL_SOCKET || h.Type != unix.SCM_TIMESTAMPING ||
		len(message) < at+int(unsafe.Sizeof(unix.Timespec{})) {
		return 0, false
	}
	// The kernel aligns control messages to machine words.
	return (*unix.Timespec)(unsafe.Pointer(&message[at])).Nano(), true
}

// LastReceiveTime is when the kernel received the packets of the last read, ns since 1970; 0 without Config.Timestamps,
// or before the first packet. The handler of a write may call it. The kernel begins a moment after it was asked, so the
// first packets may have no time.
func (n *Network) LastReceiveTime() int64 { return n.sock.timestamps.lastReceived.Load() }

// AppendSendTimes appends the times at which the kernel sent packets since the last call, ns since 1970. With
// Config.Timestamps set, call it often: the kernel keeps the times in the socket's buffer for packets.
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
				return // no more times
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
