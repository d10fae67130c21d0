package address

import (
	"context"
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// TestServicesRetrySoon holds that both ends of a connection send again soon, if the kernel can.
func TestServicesRetrySoon(t *testing.T) {
	lis, err := ListenService("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lis.Close() }()
	dialled, err := DialService(context.Background(), lis.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = dialled.Close() }()
	accepted, err := lis.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = accepted.Close() }()
	for name, conn := range map[string]net.Conn{"dialled": dialled, "accepted": accepted} {
		raw, err := conn.(*net.TCPConn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		_ = raw.Control(func(fd uintptr) {
			ms, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_RTO_MAX_MS)
			if err == nil && ms != 1000 { // else the kernel cannot
				t.Errorf("%s: it sends again after up to %d ms", name, ms)
			}
		})
	}
}
