package quic

import (
	"fmt"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"ringlet/internal/invariants"
	"ringlet/testkit/patiently"
	"ringlet/transport"
	"ringlet/transport/link"
)

func withCarrier(c transport.Carrier) func(*transport.Config) {
	return func(cfg *transport.Config) { cfg.Carrier = c }
}

// BenchmarkWrites writes 1 MiB at a time, with 8 under way, between two endpoints of this process.
func BenchmarkWrites(b *testing.B) {
	for name, carry := range map[string]func(*transport.Config){
		"quic-go": withCarrier(transport.CarrierQUICGo),
		"stream":  withCarrier(transport.CarrierStream),
		"quic":    withCarrier(transport.CarrierQUIC),
	} {
		b.Run(fmt.Sprint(name), func(b *testing.B) {
			ends := endpointsWith(b, nil, carry)
			data := pattern(1)
			b.SetBytes(bulk)
			b.ReportAllocs()
			for i := range b.N {
				if i >= 8 {
					ends[0].outcomes(b, 1)
					<-ends[1].placed
				}
				if err := ends[0].ep.Write(1, link.Write{Ref: ends[1].ref, Data: data}); err != nil {
					b.Fatal(err)
				}
			}
			b.StopTimer()
			s := ends[0].ep.Stats()
			b.ReportMetric(float64(s.DatagramsResent)/float64(max(1, s.DatagramsSent))*100, "%resent")
		})
	}
}

// BenchmarkIdleWrite is one write of 128 bytes with its response, by itself, beside a round trip of bare UDP.
func BenchmarkIdleWrite(b *testing.B) {
	for _, spin := range []time.Duration{0, time.Millisecond} {
		b.Run(fmt.Sprintf("udp/spin=%v", spin), func(b *testing.B) { benchmarkUDP(b, spin) })
		for name, carry := range map[string]func(*transport.Config){
			"quic-go": withCarrier(transport.CarrierQUICGo),
			"stream":  withCarrier(transport.CarrierStream),
			"quic":    withCarrier(transport.CarrierQUIC),
		} {
			b.Run(fmt.Sprintf("%s/spin=%v", name, spin), func(b *testing.B) {
				ends := endpointsWith(b, func(c *Config) { c.Spin = spin }, carry)
				data := pattern(1)[:128]
				for b.Loop() {
					if err := ends[0].ep.Write(1, link.Write{Ref: ends[1].ref, Data: data}); err != nil {
						b.Fatal(err)
					}
					if err := <-ends[0].completed; err != nil {
						b.Fatal(err)
					}
					<-ends[1].placed
				}
			})
		}
	}
}

// benchmarkUDP sends 128 bytes there and back, with sockets that wait as the carriers' do.
func benchmarkUDP(b *testing.B, spin time.Duration) {
	var socks [2]*socket
	for i := range socks {
		c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close()
		socks[i] = newSocket(c, false, spin, nil, nil)
	}
	var wg sync.WaitGroup
	defer wg.Wait() // bounded by the time that a benchmark is given
	defer socks[1].Close()
	wg.Go(func() {
		to := newSender(socks[1], socks[0].LocalAddr().(*net.UDPAddr), 1<<16)
		for socks[1].fill() == nil {
			to.n, to.segment, to.batchPackets = 128, 128, 1
			if to.flush() != nil {
				return
			}
		}
	})
	to := newSender(socks[0], socks[1].LocalAddr().(*net.UDPAddr), 1<<16)
	for b.Loop() {
		to.n, to.segment, to.batchPackets = 128, 128, 1
		if err := to.flush(); err != nil {
			b.Fatal(err)
		}
		if err := socks[0].fill(); err != nil {
			b.Fatal(err)
		}
	}
}

// TestQUICMakesNoGarbage: what is allocated on the way is by write, not by datagram.
func TestQUICMakesNoGarbage(t *testing.T) {
	if invariants.Enabled {
		t.Skip("SKIPPED: the race detector allocates")
	}
	patiently.Watch(t) // a timer for each wait would be garbage of the test
	ends := endpointsWith(t, nil, withCarrier(transport.CarrierQUIC))
	data := pattern(1)
	round := func(n int) {
		for range n {
			if err := ends[0].ep.Write(1, link.Write{Ref: ends[1].ref, Data: data}); err != nil {
				t.Fatal(err)
			}
			if err := <-ends[0].completed; err != nil { // bounded by Watch
				t.Fatal(err)
			}
			<-ends[1].placed // bounded by Watch
		}
	}
	round(600) // every record of the ring has grown to its size
	before, sent := mallocs(), ends[0].ep.Stats().DatagramsSent
	round(100)
	allocated, datagrams := mallocs()-before, ends[0].ep.Stats().DatagramsSent-sent
	if datagrams < 10000/10 {
		t.Fatalf("100 writes were %d datagrams", datagrams)
	}
	if allocated > datagrams/10 {
		t.Errorf("%d datagrams cost %d allocations", datagrams, allocated)
	}
}

func mallocs() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}
