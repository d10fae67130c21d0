package memory

import (
	"bytes"
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"ringlet/node/certs"
	"ringlet/shmem"
	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
	"ringlet/transport"
	"ringlet/transport/quic"
)

var carrierHistories = flag.Int("carrier-histories", 30, "histories over each carrier whose words must be linearizable")

// overCarrier makes three spaces linked by a carrier, over sockets of this host, with a segment that the first exports.
// Of datagrams that arrive some are lost on purpose.
func overCarrier(t *testing.T, row transport.CarrierKind, drop float64) []*Space {
	t.Helper()
	ca, err := certs.NewCA(0)
	must.OK(t, err)
	view := transport.View{Number: 1}
	nets := make([]*quic.Network, 3)
	for rank := range nets {
		name := fmt.Sprintf("n%d", rank)
		id, err := ca.Issue(name, nil, certs.RoleNode, 0)
		must.OK(t, err)
		nets[rank], err = quic.Listen(quic.Config{
			Addr:      "127.0.0.1:0",
			ServerTLS: id.Server(),
			ClientTLS: id.Client,
			PeerName: func(state tls.ConnectionState) (string, error) {
				peer, err := certs.PeerIdentity(state)
				return peer.Name, err
			},
		})
		must.OK(t, err)
		view.Members = append(view.Members, transport.Member{Name: name, Addr: nets[rank].Addr().String()})
	}
	dir, spaces := t.TempDir(), make([]*Space, len(nets))
	var wg sync.WaitGroup
	for rank := range spaces {
		table := shmem.NewTable(64)
		if row.SameHost {
			table, err = shmem.NewSharedTable(fmt.Sprintf("ringlet-t-%d-%d", os.Getpid(), rank), 64)
			must.OK(t, err)
		}
		spaces[rank], err = New(Config{Transport: transport.Config{
			Network:   nets[rank],
			Table:     table,
			View:      view,
			Rank:      rank,
			Carrier:   row.Carrier,
			DropShare: drop,
			DropSeed:  uint64(rank),
		}})
		must.OK(t, err)
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), patiently.LongTimeout)
			defer cancel()
			var others []int
			for r := range spaces {
				if r != rank {
					others = append(others, r)
				}
			}
			if err := spaces[rank].Connect(ctx, others); err != nil {
				t.Error(err)
			}
		})
		t.Cleanup(func() {
			must.OK(t, spaces[rank].Close())
			must.OK(t, nets[rank].Close())
			must.OK(t, table.Close())
		})
	}
	patiently.Wait(t, wg.Wait)
	var opts []shmem.Option
	if !row.SameHost {
		opts = append(opts, shmem.WithDir(dir))
	}
	seg, err := shmem.Create(fmt.Sprintf("ringlet-t-%d-words", os.Getpid()), 256*PageSize, opts...)
	must.OK(t, err)
	x, err := spaces[0].Export("words", seg, allPages(256))
	must.OK(t, err)
	t.Cleanup(func() { // before the spaces are closed
		must.OK(t, x.Close())
		must.OK(t, seg.Close())
	})
	return spaces
}

// TestEveryCarrierIsLinearizable: eight clients on three nodes, as in TestWordsAreLinearizable, but over each carrier,
// by the clock, each history with words of its own. Nobody is killed here.
func TestEveryCarrierIsLinearizable(t *testing.T) {
	for _, row := range transport.Kinds {
		t.Run(row.Name, func(t *testing.T) {
			drop := 0.02
			if row.SameHost {
				drop = 0
			}
			spaces := overCarrier(t, row, drop)
			if t.Failed() {
				return
			}
			operations, unknown := 0, 0
			for h := range *carrierHistories {
				ops, u := carrierHistory(t, spaces, h)
				if got := porcupine.CheckOperationsTimeout(wordModel, ops, time.Minute); got != porcupine.Ok {
					t.Fatalf("history %d: %v: %d operations", h, got, len(ops))
				}
				operations, unknown = operations+len(ops), unknown+u
			}
			t.Logf("%d histories, %d transactions, %d of them unknown", *carrierHistories, operations, unknown)
			if operations == 0 {
				t.Error("the test tries too little")
			}
		})
	}
}

func carrierHistory(t *testing.T, spaces []*Space, h int) (ops []porcupine.Operation, unknown int) {
	base := int64(h%(256*PageSize/64)) * 64
	ctx := context.Background()
	local, err := spaces[0].Import(ctx, "words@n0")
	must.OK(t, err)
	defer local.Close()
	must.OK(t, local.Write(ctx, base, bytes.Repeat([]byte{0}, 16)))
	var mu sync.Mutex
	var wg sync.WaitGroup
	rng, start := rand.New(rand.NewPCG(uint64(h), 3)), time.Now()
	for client := range 8 {
		im, err := spaces[client%len(spaces)].Import(ctx, "words@n0")
		must.OK(t, err)
		defer im.Close()
		seed := rng.Uint64()
		wg.Go(func() {
			for _, o := range work(im.InContext(client), base, client, seed, start) {
				mu.Lock()
				ops = append(ops, o)
				if o.Output.(wordOutput).unknown {
					unknown++
				}
				mu.Unlock()
			}
		})
	}
	patiently.Wait(t, wg.Wait)
	return ops, unknown
}
