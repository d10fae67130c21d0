package tagnet

import (
	"errors"
	"io"
	"net"
	"testing"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
	"ringlet/tagnet/core"
)

// BenchmarkTokensOverGRPC issues b.N MEPs over loopback TCP to 4 readout units, each on a connection of its own and
// each receiving every token, with 4 builder units that return a slot when "their" readout unit has its token. An
// operation is one token: issued, received four times, fed back.
func BenchmarkTokensOverGRPC(b *testing.B) {
	const units, slots, retain, packing = 4, 4096, 1 << 16, 10
	server, err := newServer(serverConfig{Core: core.Config{
		RUs:     names("ru", units),
		BUs:     names("bu", units),
		Slots:   slots,
		Packing: packing,
		Window:  retain,
	}})
	must(b, err)
	g := grpc.NewServer(ServerOptions()...)
	h := NewHost(Access{})
	h.server, server.beginRequest = server, &tagnetv1.BeginRequest{}
	h.Register(g)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(b, err)
	var work errgroup.Group
	var served errgroup.Group
	served.Go(func() error { return g.Serve(listener) })
	insecurely := grpc.WithTransportCredentials(insecure.NewCredentials())
	ctx := testContext(b)
	for i := range units {
		ru, err := DialRU(ctx, listener.Addr().String(), Scope{Name: names("ru", units)[i]}, nil, insecurely)
		must(b, err)
		defer ru.Close()
		bu, err := DialBU(ctx, listener.Addr().String(), Scope{Name: names("bu", units)[i]}, slots, BUHandlers{}, insecurely)
		must(b, err)
		defer bu.Close()
		work.Go(func() error { return benchUnit(b, ru, bu, i, uint64(b.N), retain, packing) })
	}
	err = work.Wait()
	b.StopTimer()
	s, _ := core.StatsOf(server.Registers())
	if err != nil || s.Counters.Built != uint64(b.N) {
		b.Errorf("%d of %d built: %v", s.Counters.Built, b.N, err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tokens/s")
	b.ReportMetric(float64(s.Latency.ValueAtQuantile(50)), "p50-µs")
	server.Close()
	g.Stop()
	if err := served.Wait(); err != nil {
		b.Error(err)
	}
}

// benchUnit is a readout unit that reads at once and a builder unit that builds at once.
func benchUnit(b *testing.B, ru *RUClient, bu *BUClient, place int, total, retain, packing uint64) error {
	var out []core.Feedback
	var reported uint64
	for released := uint64(0); ; {
		if read := min(total, released+retain); read > reported || reported == 0 {
			reported = read
			err := ru.Update(core.Update{ReadBelow: read, Events: read * packing, InputEnded: read == total})
			if err != nil && !errors.Is(err, io.EOF) {
				return err
			}
		}
		t, err := ru.Next(b.Context())
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		released = t.Released
		out = out[:0]
		for i := range t.Len() {
			if tok, ok := t.Token(i, place); ok {
				out = append(out, core.Feedback{
					MEP:     tok.MEP,
					Slot:    tok.Slot,
					Attempt: tok.Attempt,
					Events:  uint32(packing),
					Outcome: core.Built,
				})
			}
		}
		if err := bu.SendFeedback(out...); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
	}
}

// BenchmarkRemoteStats reads all figures of a view of 32 readout and 32 builder units, as a control does once or twice
// a second.
func BenchmarkRemoteStats(b *testing.B) {
	sys := serve(b, serverConfig{Core: core.Config{
		RUs:     names("ru", 32),
		BUs:     names("bu", 32),
		Slots:   32,
		Packing: 100,
	}})
	rus, bus := sys.attachAll(b)
	for _, c := range rus {
		must(b, c.Update(core.Update{ReadBelow: 1000, Events: 100_000}))
	}
	for built := 0; built < 1000; { // latencies of some length
		tokens := nextBatch(b, rus[0])
		for i := range tokens.Len() {
			for place := range tokens.PlacesPerCycle {
				if tok, ok := tokens.Token(i, place); ok {
					must(b, build(bus[place], tok, 100))
					built++
				}
			}
		}
	}
	r := NewRemote(sys.conn, RemoteConfig{Scope: sys.scope("control")})
	defer r.Close()
	for b.Loop() {
		if _, err := r.Stats(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(proto.Size(sys.server.Registers())), "B/message")
}
