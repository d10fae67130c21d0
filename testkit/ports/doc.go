// Package ports has ports of this machine for tests that must know one beforehand, or listen at it a second time: that
// of a run control's gossip, which nodes are told before there is a control.
//
// A test that listens once asks the kernel for a port instead. It is for tests alone; depguard keeps it out of
// everything else.
package ports

import (
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// Reserve is a port of a test alone until the test ends, for TCP and UDP. The kernel hands out no such port by itself:
// it lies below those of connections. A name that only one process of this machine can hold keeps it from other tests.
func Reserve(t testing.TB) int {
	t.Helper()
	for range 1000 {
		port := 12_000 + rand.IntN(18_000)
		held, err := net.Listen("unix", "@ringlet-test-port-"+strconv.Itoa(port))
		if err != nil {
			continue // another test has it
		}
		t.Cleanup(func() { _ = held.Close() })
		if free(":" + strconv.Itoa(port)) {
			return port
		}
	}
	t.Fatal("there is no free port")
	return 0
}

// free says that no other program has the port.
func free(address string) bool {
	tcp, err := net.Listen("tcp", address)
	if err != nil {
		return false
	}
	defer tcp.Close()
	udp, err := net.ListenPacket("udp", address)
	if err != nil {
		return false
	}
	return udp.Close() == nil
}
