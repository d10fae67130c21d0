// Package ports reserves ports of this machine for tests that must know a port before a process listens at it, or
// listen at it twice. An example is the port of a run control's gossip, which nodes need before the control starts.
//
// A test that listens once uses port 0 instead. It is for tests alone; depguard keeps it out of everything else.
package ports

import (
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// Reserve returns a port, for TCP and UDP, that no other test has until this test ends. The kernel does not assign it
// by itself, since it lies below the range for connections. A Unix socket with the port in its name is the reservation.
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

// free says whether no program listens at the port.
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
