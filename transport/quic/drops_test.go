package quic

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestDropsAreCounted holds that each packet which came is read or counted as dropped, and by its own socket alone.
func TestDropsAreCounted(t *testing.T) {
	var socks [2]*socket
	for i := range socks {
		socks[i] = newSocket(udp(t), false, 0, nil, nil)
	}
	if err := socks[0].SetReadBuffer(1 << 16); err != nil {
		t.Fatal(err)
	}
	const sent = 1000
	for range sent {
		if _, err := socks[1].WriteTo(make([]byte, 1000), socks[0].LocalAddr()); err != nil {
			t.Fatal(err)
		}
	}
	read := uint64(0)
	buf := make([]byte, 2000)
	_ = socks[0].raw.Control(func(fd uintptr) {
		for {
			if _, _, err := unix.Recvfrom(int(fd), buf, unix.MSG_DONTWAIT); err != nil {
				return
			}
			read++
		}
	})
	if got := socks[0].kernelDrops(); got == 0 || got+read != sent {
		t.Errorf("of %d packets %d were read, and %d counted as dropped", sent, read, got)
	}
	if got := socks[1].kernelDrops(); got != 0 {
		t.Errorf("the socket that nobody sent to dropped %d", got)
	}
	_ = socks[0].Close()
	if got := socks[0].kernelDrops(); got != 0 {
		t.Errorf("the closed socket says %d", got)
	}
}
