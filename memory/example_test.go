package memory_test

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"os"
	"sync"

	"ringlet/memory"
	"ringlet/node/certs"
	"ringlet/shmem"
	"ringlet/transport"
	"ringlet/transport/quic"
)

// must ends an example at an error.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func done(err error) { must(0, err) }

// host is a process of the examples; here each has a socket of its own, and they share a process.
type host struct {
	*memory.Space
	close func()
}

// hosts makes some, linked to each other over the carrier quic.
func hosts(names ...string) []host {
	ca := must(certs.NewCA(0))
	view := transport.View{Number: 1}
	var nets []*quic.Network
	for _, name := range names {
		id := must(ca.Issue(name, nil, certs.RoleNode, 0))
		n := must(quic.Listen(quic.Config{
			Addr:      "127.0.0.1:0",
			ServerTLS: id.Server(),
			ClientTLS: id.Client,
			PeerName: func(state tls.ConnectionState) (string, error) {
				peer, err := certs.PeerIdentity(state)
				return peer.Name, err
			},
		}))
		nets = append(nets, n)
		view.Members = append(view.Members, transport.Member{Name: name, Addr: n.Addr().String()})
	}
	var all []host
	var wg sync.WaitGroup
	for rank, net := range nets {
		table := shmem.NewTable(64)
		s := must(memory.New(memory.Config{Transport: transport.Config{
			Network: net,
			Table:   table,
			View:    view,
			Rank:    rank,
			Carrier: transport.CarrierQUIC,
		}}))
		all = append(all, host{s, func() {
			done(s.Close())
			done(net.Close())
			done(table.Close())
		}})
		var others []int
		for r := range names {
			if r != rank {
				others = append(others, r)
			}
		}
		wg.Go(func() { done(s.Connect(context.Background(), others)) })
	}
	wg.Wait() // bounded by the time-outs of the memory itself
	return all
}

// Three hosts count with one word in the memory of the first.
func Example_counter() {
	ctx := context.Background()
	all := hosts("a", "b", "c")
	segment := must(shmem.Create(fmt.Sprintf("ringlet-example-%d-count", os.Getpid()), memory.PageSize))
	export := must(all[0].Export("count", segment, memory.Pages{
		Count: 1,
		Peer:  memory.Everybody,
		Allow: memory.AllowRead | memory.AllowLock,
	}))
	var wg sync.WaitGroup
	for _, h := range all {
		count := must(h.Import(ctx, "count@a"))
		wg.Go(func() {
			for range 100 {
				must(count.Add(ctx, 0, 1))
			}
		})
	}
	wg.Wait() // bounded by the time-outs of the memory itself
	fmt.Println(shmem.Word(segment.Bytes()).Load())
	done(export.Close())
	for _, h := range all {
		h.close()
	}
	done(segment.Close())
	// Output: 300
}

// The ring: the reader's memory has a page with two words, how many records were written and how many were read, and
// pages with the records. The writer puts a record, then the count, then a notice; the reader waits for a notice, reads
// what is there by loads, and stores how far it is.
const (
	recordSize = 64
	records    = 256
	writtenAt  = 0
	readAt     = 8
	recordsAt  = memory.PageSize
)

func produce(ctx context.Context, ring *memory.Import, n uint64) {
	var record [recordSize]byte
	var word [8]byte
	read := uint64(0)
	for i := range n {
		for i-read == records { // it is full, as far as is known: ask again
			done(ring.Read(ctx, readAt, word[:]))
			read = binary.LittleEndian.Uint64(word[:])
		}
		binary.LittleEndian.PutUint64(record[:], i*i)
		done(ring.Write(ctx, recordsAt+int64(i%records)*recordSize, record[:]))
		binary.LittleEndian.PutUint64(word[:], i+1)
		done(ring.Write(ctx, writtenAt, word[:]))
		must(ring.Notify(ctx, writtenAt))
	}
}

func consume(ctx context.Context, ring *memory.Import, n uint64) (sum uint64) {
	var record [recordSize]byte
	var word [8]byte
	known, read := uint64(0), uint64(0)
	for read < n {
		known = must(ring.Wait(ctx, writtenAt, known))
		done(ring.Read(ctx, writtenAt, word[:]))
		for written := binary.LittleEndian.Uint64(word[:]); read < written; read++ {
			done(ring.Read(ctx, recordsAt+int64(read%records)*recordSize, record[:]))
			sum += binary.LittleEndian.Uint64(record[:])
		}
		binary.LittleEndian.PutUint64(word[:], read)
		done(ring.Write(ctx, readAt, word[:]))
	}
	return sum
}

// A ring buffer between two hosts: what one writes, the other reads in order.
func Example_ring() {
	ctx := context.Background()
	all := hosts("writer", "reader")
	pages := 1 + records*recordSize/memory.PageSize
	segment := must(shmem.Create(fmt.Sprintf("ringlet-example-%d-ring", os.Getpid()), pages*memory.PageSize))
	export := must(all[1].Export("ring", segment, memory.Pages{
		Count: pages,
		Peer:  memory.Everybody,
		Allow: memory.AllowAll,
	}))
	const n = 1000
	ring := must(all[0].Import(ctx, "ring@reader"))
	var wg sync.WaitGroup
	wg.Go(func() { produce(ctx, ring, n) })
	fmt.Println(consume(ctx, must(all[1].Import(ctx, "ring@reader")), n)) // its own memory: loads and stores
	wg.Wait()                                                             // bounded by the time-outs of the memory itself
	ring.Close()
	done(export.Close())
	for _, h := range all {
		h.close()
	}
	done(segment.Close())
	// Output: 332833500
}
