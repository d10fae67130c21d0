package main

import (
	"net"
	"slices"
	"strings"
	"testing"

	"ringlet/filter/decision"
	"ringlet/node/config"
	"ringlet/testkit/must"
)

// TestChainIsTaken: the program takes every configuration of the chain, and faults strike whom it has.
func TestChainIsTaken(t *testing.T) {
	seen := map[kind]int{}
	drawn(env{Chain: true, Python: "python3"}, func(seed uint64, r plannedRun) {
		cfg := config.Default()
		c := &cluster{decisionAddr: "127.0.0.1:7801"}
		must.OK(t, cfg.Apply(append(slices.Clone(r.Settings), c.outputSettings(r)...)))
		if err := cfg.Complete(); err != nil {
			t.Fatalf("seed %d, run %d: %v: %v", seed, r.Index, r.Settings, err)
		}
		if cfg.DecisionNode == "" || strings.HasPrefix(cfg.Filter, "process:") != (r.FilterName != "") {
			t.Fatalf("seed %d, run %d: %v", seed, r.Index, r.Settings)
		}
		for _, f := range r.Faults {
			seen[f.Kind]++
			if first := name(cfg.Nodes - cfg.BUs); f.Node == first {
				t.Errorf("seed %d, run %d: %s strikes %s, and somebody has to build", seed, r.Index, f, first)
			}
			if f.Kind == killFilter && r.FilterName == "" {
				t.Errorf("seed %d, run %d: no filter to kill: %v", seed, r.Index, r.Faults)
			}
		}
	})
	for _, k := range chainKinds {
		if seen[k] == 0 {
			t.Errorf("never: %s", k)
		}
	}
	drawn(env{Chain: true}, func(_ uint64, r plannedRun) {
		if r.FilterName != "" {
			t.Fatal("a filter process where there is no interpreter")
		}
	})
}

// TestOrder: what a subscriber sees is told apart: nothing between two connections, gaps, and repetitions.
func TestOrder(t *testing.T) {
	var o decisionOrder
	for _, events := range [][]uint64{{2, 3, 4}, {7, 8, 10, 9}, {8, 11}} {
		o.beginConnection()
		for _, e := range events {
			o.record(e)
		}
	}
	want := decisionOrder{
		next:     12,
		Seen:     7,
		Unseen:   4, // 0, 1, 5, 6
		Gaps:     1, // 9, before it came again
		Repeated: 2, // 9, 8
	}
	if o != want {
		t.Errorf("%+v, want %+v", o, want)
	}
}

// TestSubscriber: it reads decisions however they are cut, and connects again.
func TestSubscriber(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	defer func() { _ = lis.Close() }()
	s := subscribe(t.Context(), lis.Addr().String())
	for life := range uint64(3) {
		conn, err := lis.Accept()
		must.OK(t, err)
		var all []byte
		for i := range uint64(1000) {
			b := make([]byte, decision.ResultSize)
			(&decision.Result{Event: life*2000 + i, Decision: 1}).Put(b)
			all = append(all, b...)
		}
		for len(all) > 0 {
			n := min(len(all), 1007)
			_, err := conn.Write(all[:n])
			must.OK(t, err)
			all = all[n:]
		}
		must.OK(t, conn.Close())
	}
	conn, err := lis.Accept() // so the last connection has been read to its end
	must.OK(t, err)
	defer func() { _ = conn.Close() }()
	o, broken := s.end()
	if broken != nil || o.Seen != 3000 || o.Unseen != 2000 || o.Gaps+o.Repeated != 0 {
		t.Errorf("%+v, %v", o, broken)
	}
}
