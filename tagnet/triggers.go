package tagnet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ringlet/internal/address"
	"ringlet/tagnet/core"
)

// triggerSocket receives triggers: each datagram is one, whatever it holds.
type triggerSocket struct {
	conn interface {
		Close() error
		SetReadBuffer(bytes int) error
		SyscallConn() (syscall.RawConn, error)
	}
	read func(oob []byte) (oobLen int, err error) // one datagram
	path string                                   // of a Unix socket, to remove at the end

	received atomic.Uint64 // and not passed on yet
	lost     atomic.Uint64 // dropped by the kernel, and not passed on yet
}

// triggerBuffer is the size wanted for the buffer of the socket, in bytes; the kernel may give less. A datagram takes
// some 800 bytes of it.
const triggerBuffer = 4 << 20

// listenTriggers opens the socket of a trigger; nil for a trigger without socket.
func listenTriggers(t Trigger) (s *triggerSocket, err error) {
	switch t.Kind {
	case TriggerUDP:
		conn, err := address.ListenUDP(t.Address)
		if err != nil {
			return nil, fmt.Errorf("triggers cannot be received at %s: %w", t.Address, err)
		}
		s = &triggerSocket{conn: conn, read: func(oob []byte) (int, error) {
			var b [1]byte
			_, n, _, _, err := conn.ReadMsgUDPAddrPort(b[:], oob)
			return n, err
		}}
	case TriggerUnix:
		conn, err := listenUnixgram(t.Address)
		if err != nil {
			return nil, fmt.Errorf("triggers cannot be received at %s: %w", t.Address, err)
		}
		s = &triggerSocket{conn: conn, path: t.Address, read: func(oob []byte) (int, error) {
			var b [1]byte
			_, n, _, _, err := conn.ReadMsgUnix(b[:], oob)
			return n, err
		}}
	default:
		return nil, nil
	}
	_ = s.conn.SetReadBuffer(triggerBuffer) // lost triggers are counted in any case
	raw, err := s.conn.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RXQ_OVFL, 1) })
	}
	return s, err
}

// listenUnixgram binds a Unix socket for this user alone. It takes the place of a socket that nobody reads any more.
func listenUnixgram(path string) (*net.UnixConn, error) {
	at := &net.UnixAddr{Name: path, Net: "unixgram"}
	conn, err := net.ListenUnixgram("unixgram", at)
	if errors.Is(err, syscall.EADDRINUSE) {
		if info, statErr := os.Lstat(path); statErr == nil && info.Mode().Type() == os.ModeSocket {
			other, dialErr := net.DialUnix("unixgram", nil, at)
			if dialErr == nil {
				_ = other.Close()
			} else if errors.Is(dialErr, syscall.ECONNREFUSED) && os.Remove(path) == nil {
				conn, err = net.ListenUnixgram("unixgram", at)
			}
		}
	}
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// triggerRetryDelay is the time between two attempts to read from a socket that fails.
const triggerRetryDelay = 10 * time.Millisecond

// receive reads triggers until the socket is closed. It calls wake when there are triggers that have not been claimed.
func (s *triggerSocket) receive(wake func()) {
	oob := make([]byte, unix.CmsgSpace(4))
	var dropped uint32 // datagrams in all that the kernel dropped
	for {
		n, err := s.read(oob)
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			time.Sleep(triggerRetryDelay)
			continue
		}
		if now, ok := droppedCount(oob[:n]); ok {
			s.lost.Add(uint64(now - dropped)) // the count of the kernel has 32 bits
			dropped = now
		}
		if s.received.Add(1) == 1 {
			wake()
		}
	}
}

// droppedCount reads how many datagrams the kernel has dropped from the control message of a datagram.
func droppedCount(oob []byte) (uint32, bool) {
	all, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return 0, false
	}
	for _, m := range all {
		if m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SO_RXQ_OVFL && len(m.Data) >= 4 {
			return binary.NativeEndian.Uint32(m.Data), true
		}
	}
	return 0, false
}

// claim returns the triggers since the last claim.
func (s *triggerSocket) claim() core.Triggered {
	return core.Triggered{Count: s.received.Swap(0), Lost: s.lost.Swap(0)}
}

// close closes the socket and removes its path.
func (s *triggerSocket) close() {
	_ = s.conn.Close()
	if s.path != "" {
		_ = os.Remove(s.path)
	}
}
