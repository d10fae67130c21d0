package tagnet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
	"ringlet/tagnet/core"
	"ringlet/testkit/patiently"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// system is a served scheduler with an in-memory network.
type system struct {
	server      *Server
	conn        *grpc.ClientConn
	noticesSeen uint64 // number of the notice that incident has seen last
	cfg         serverConfig
}

var testTimeout = patiently.LongTimeout // far more than any test needs; only for a test that hangs

func serve(tb testing.TB, cfg serverConfig) *system {
	tb.Helper()
	cfg.Run, cfg.View = 7, 3
	server, err := newServer(cfg)
	must(tb, err)
	h := host(tb, cfg.Access)
	h.host.server, server.beginRequest = server, &tagnetv1.BeginRequest{} // nobody has begun it
	return &system{server: server, cfg: server.cfg, conn: h.dial()}
}

func (sys *system) scope(name string) Scope { return Scope{Run: 7, View: 3, Name: name} }

// names are those of some units.
func names(prefix string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%s%d", prefix, i)
	}
	return out
}

// built is the feedback for a token whose MEP is whole.
func built(t core.Token, events uint32) core.Feedback {
	return core.Feedback{
		MEP:     t.MEP,
		Slot:    t.Slot,
		Attempt: t.Attempt,
		Events:  events,
		Outcome: core.Built,
	}
}

// fataler is a test of the package testing or of rapid.
type fataler interface {
	Helper()
	Fatal(args ...any)
}

func must(t fataler, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func nextBatch(t testing.TB, c *RUClient) Tokens {
	t.Helper()
	tokens, err := c.Next(testContext(t))
	must(t, err)
	return tokens
}

func testContext(tb testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	tb.Cleanup(cancel)
	return ctx
}

func (sys *system) ru(tb testing.TB, name string) *RUClient {
	tb.Helper()
	c, err := newRUClient(testContext(tb), sys.conn, sys.scope(name), nil)
	must(tb, err)
	tb.Cleanup(func() { c.Close() })
	return c
}

func (sys *system) bu(tb testing.TB, name string) *BUClient {
	tb.Helper()
	c, err := newBUClient(testContext(tb), sys.conn, sys.scope(name), sys.cfg.Core.Slots, BUHandlers{})
	must(tb, err)
	tb.Cleanup(func() { c.Close() })
	return c
}

// attachAll attaches every unit of the view.
func (sys *system) attachAll(tb testing.TB) (rus []*RUClient, bus []*BUClient) {
	tb.Helper()
	for _, name := range sys.cfg.Core.RUs {
		rus = append(rus, sys.ru(tb, name))
	}
	for _, name := range sys.cfg.Core.BUs {
		bus = append(bus, sys.bu(tb, name))
	}
	return rus, bus
}

// readAhead lets the unit hold up to `retain` MEPs beyond the released watermark, of total MEPs, and returns the token
// it was given, calling each for every token.
func readAhead(ctx context.Context, c *RUClient, total, retain, packing uint64, each func(core.Token) error) error {
	report := func(released uint64) error {
		read := min(total, released+retain)
		err := c.Update(core.Update{ReadBelow: read, Events: read * packing, InputEnded: read == total})
		if errors.Is(err, io.EOF) {
			return nil // drained meanwhile: Next tells
		}
		return err
	}
	if err := report(0); err != nil {
		return err
	}
	for {
		t, err := c.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for i := range t.Len() {
			for place := range t.PlacesPerCycle {
				if tok, ok := t.Token(i, place); ok {
					if err := each(tok); err != nil {
						return err
					}
				}
			}
		}
		if err := report(t.Released); err != nil {
			return err
		}
	}
}

func build(c *BUClient, tok core.Token, events uint32) error {
	err := c.SendFeedback(built(tok, events))
	if errors.Is(err, io.EOF) {
		return nil // the view was drained by this very feedback
	}
	return err
}

// TestViewOverGRPC runs a view to its end: every readout unit gets the same tokens in the same order, the builder units
// return every slot, and everything ends by itself.
func TestViewOverGRPC(t *testing.T) {
	const total, packing = 5000, 10
	for name, cfg := range map[string]core.Config{
		"wait": {},
		"skip": {NoSlotPolicy: core.Skip},
		"groups, loose": {Loose: true, Rules: core.Rules{
			Groups: [][]int{{0, 2}, {3, 1}}, BusyGroupPolicy: core.Skip, TurnSets: [][]int{{2, 0}, {1, 3}},
		}},
		"ratio, loose": {Loose: true, Rules: core.Rules{TurnOrder: core.ByRatio, Ratio: []int{1, 2, 3, 4}}},
		"demand":       {NoSlotPolicy: core.Skip, Rules: core.Rules{TurnOrder: core.ByDemand}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg.RUs, cfg.BUs, cfg.Slots, cfg.Packing = names("ru", 3), names("bu", 4), 8, packing
			sys := serve(t, serverConfig{Core: cfg})
			rus, bus := sys.attachAll(t)
			got, seen := make([][]core.Token, len(rus)), make([]atomic.Int32, total)
			g, ctx := errgroup.WithContext(testContext(t))
			for i, c := range rus {
				g.Go(func() error {
					return readAhead(ctx, c, total, 100, packing, func(tok core.Token) error {
						got[i] = append(got[i], tok)
						if int(seen[tok.MEP].Add(1)) < len(rus) {
							return nil // the builder unit has not everybody's part yet
						}
						return build(bus[tok.BU], tok, packing)
					})
				})
			}
			must(t, patiently.Result(t, g.Wait))
			for _, c := range bus {
				patiently.Receive(t, c.Done())
				if !errors.Is(c.Err(), io.EOF) {
					t.Errorf("a builder unit ended with %v", c.Err())
				}
			}
			patiently.Receive(t, sys.server.Drained())
			sys.checkComplete(t, got, total, total*packing)
			sys.checkRules(t, total)
		})
	}
}

// checkRules reads the registers as a remote caller does.
func (sys *system) checkRules(t *testing.T, meps uint64) {
	t.Helper()
	r, err := tagnetv1.NewTagNetClient(sys.conn).Registers(testContext(t),
		&tagnetv1.RegistersRequest{Scope: &tagnetv1.Scope{Protocol: protocolVersion}})
	must(t, err)
	rules := sys.cfg.Core.Rules
	if r.GetLoose() != sys.cfg.Core.Loose || r.GetRules().GetNext() != rules.TurnOrder.String() ||
		len(r.GetGroups()) != len(rules.Groups) {
		t.Errorf("the registers tell loose %v, next %q, %d groups", r.GetLoose(), r.GetRules().GetNext(), len(r.GetGroups()))
	}
	var tokens uint64
	for i, g := range r.GetGroups() {
		if g.GetRunning() != 0 || g.GetMost() != 1 || g.GetMembers()[0] != sys.cfg.Core.BUs[rules.Groups[i][0]] {
			t.Errorf("group %d reads %v", i, g)
		}
		tokens += g.GetTokens()
	}
	if len(rules.Groups) > 0 && tokens != meps {
		t.Errorf("the groups had %d tokens of %d", tokens, meps)
	}
	for bu, w := range rules.Ratio {
		if n := r.GetBus()[bu].GetCounters().GetTokens(); n != meps*uint64(w)/10 {
			t.Errorf("builder unit %d of weight %d of 10 had %d tokens of %d", bu, w, n, meps)
		}
	}
}

func (sys *system) checkComplete(t *testing.T, got [][]core.Token, meps, events uint64) {
	t.Helper()
	for i := range got {
		if uint64(len(got[i])) != meps {
			t.Fatalf("ru%d got %d tokens, want %d", i, len(got[i]), meps)
		}
		for k, tok := range got[i] {
			if tok != got[0][k] {
				t.Fatalf("token %d is %+v at ru%d and %+v at ru0", k, tok, i, got[0][k])
			}
		}
	}
	s, err := core.StatsOf(sys.server.Registers())
	must(t, err)
	c := s.Counters
	if slices.Max(c.Refused) > 0 || c.Built != meps || c.EventsBuilt != events || c.EventsIssued != events ||
		core.State(s.State) != core.Drained {
		t.Errorf("%d MEPs and %d of %d events built, state %v", c.Built, c.EventsBuilt, c.EventsIssued, core.State(s.State))
	}
	if n := s.Latency.TotalCount(); uint64(n) != meps || s.LatencyClipped != 0 {
		t.Errorf("%d latencies, %d clipped", n, s.LatencyClipped)
	}
	if s.FirstTokenNs == 0 || s.LastMepNs < s.FirstTokenNs {
		t.Errorf("first token at %v, last MEP at %v", s.FirstTokenNs, s.LastMepNs)
	}
	some, _, _ := sys.server.log.follow(sys.noticesSeen + 1)
	for _, n := range some {
		if n.Incident != nil {
			t.Errorf("reported: %v", n.Incident)
		}
	}
}
