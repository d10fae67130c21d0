package bench

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"ringlet/lab/tool"
	"ringlet/node/config"
	"ringlet/transport"
)

// TestMemory: every carrier puts, gets and wakes; no speed is asked for.
func TestMemory(t *testing.T) {
	for _, c := range transport.Kinds {
		r, err := MeasureNodes(t.Context(), &MemoryConfig{
			NodesConfig: nodesTestConfig(t, c.Name),
			Sizes:       []config.Bytes{8, 100_000},
			Duration:    10 * time.Millisecond,
			Concurrency: 3,
		})
		if err != nil || len(r.Rows) != 2 || r.UDPRoundTrip <= 0 || r.AddTime <= 0 {
			t.Fatalf("%s: %v: %+v", c.Name, err, r)
		}
		for _, m := range r.Rows {
			if m.PutTime <= 0 || m.GetTime <= 0 || m.MessageTime <= 0 || m.PutGbps <= 0 || m.GetGbps <= 0 {
				t.Errorf("%s: %+v", c.Name, m)
			}
		}
		checkBeside(t, r)
		var text bytes.Buffer
		if err := r.WriteTable(&text); err != nil || !strings.Contains(text.String(), "97.7 KiB") &&
			!strings.Contains(text.String(), "100000") {
			t.Errorf("%v: %s", err, text.String())
		}
	}
	nothingMapped(t)
}

// checkBeside: what needs no other program was measured, each size where it can be.
func checkBeside(t *testing.T, r *memoryReport) {
	t.Helper()
	sizes := map[string]int{"UDP": 1, "TCP": 2, "MPI TCP": 0, "MPI memory": 0, "memcpy": 2}
	if len(r.References) != len(sizes) {
		t.Errorf("%+v", r.References)
	}
	for _, b := range r.References {
		if len(b.Rows) != sizes[b.Name] || (b.WhyLeftOut == "") == strings.HasPrefix(b.Name, "MPI") {
			t.Errorf("%+v", b)
		}
		copied := b.Name == "memcpy"
		for _, m := range b.Rows {
			if m.PutTime <= 0 || m.GetTime <= 0 || (m.MessageTime <= 0) != copied || (m.PutGbps <= 0) != (b.Name == "UDP") ||
				(m.GetGbps <= 0) != (b.Name == "UDP") || (b.AddTime <= 0) != copied {
				t.Errorf("%s: %+v", b.Name, m)
			}
		}
	}
}

// TestMemoryBesideMPI: the program is compiled and run, where there is a compiler for it, and is left out aloud where
// there is none.
func TestMemoryBesideMPI(t *testing.T) {
	cfg := MemoryConfig{
		NodesConfig: nodesTestConfig(t, "local"),
		Sizes:       []config.Bytes{8, 100_000},
		Duration:    10 * time.Millisecond,
		Concurrency: 3,
		MPI:         true,
	}
	r, err := MeasureNodes(t.Context(), &cfg)
	if err != nil {
		t.Fatal(err)
	}
	missing := tool.CheckInstalled("mpicc", "mpirun")
	for _, b := range r.References {
		switch {
		case !strings.HasPrefix(b.Name, "MPI"):
		case missing != nil && b.WhyLeftOut != missing.Error():
			t.Errorf("%+v", b)
		case missing == nil && (len(b.Rows) != 2 || b.AddTime <= 0 || b.Rows[1].GetGbps <= 0):
			t.Errorf("%+v", b)
		}
	}
	t.Setenv("PATH", t.TempDir())
	if r, err = MeasureNodes(t.Context(), &cfg); err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := r.WriteTable(&text); err != nil ||
		!strings.Contains(text.String(), "MPI TCP is left out: mpicc, mpirun not installed\n") {
		t.Errorf("%v: %s", err, text.String())
	}
	nothingMapped(t)
}

func TestParseOneSided(t *testing.T) {
	const complete = "a remark\nadd 1.5\nsize 8 1 2 3 1000000000 2000000000\nsize 16 4 5 6 1e9 2e9\n"
	add, rows, err := parseOneSided([]byte(complete), 2)
	want := memoryRow{
		Size:        8,
		PutTime:     1,
		GetTime:     2,
		MessageTime: 3,
		PutGbps:     8,
		GetGbps:     16,
	}
	if err != nil || add != 1.5 || len(rows) != 2 || rows[0] != want {
		t.Errorf("%v, %+v, %v", add, rows, err)
	}
	if _, rows, err := parseOneSided([]byte(complete), 3); err == nil || len(rows) != 0 {
		t.Errorf("%+v, %v", rows, err)
	}
}

// TestMemoryBehindSockets: bytes go there and come back, a word counts, and a stranger has nothing of it.
func TestMemoryBehindSockets(t *testing.T) {
	for network, joined := range map[string]int{"tcp": 8, "udp": maxUDPBytes} {
		mem := make([]byte, 1<<16)
		o := newSocketOwner(mem, 0)
		listen := o.listenTCP
		if network == "udp" {
			listen = o.listenUDP
		}
		addr, err := listen("127.0.0.1")
		if err != nil {
			t.Fatal(err)
		}
		u, err := newSocketUser(t.Context(), network, addr, time.Microsecond, joined)
		if err != nil {
			t.Fatal(err)
		}
		s := &socketMemory{owner: o, users: []*socketUser{u}, answerBufs: [][]byte{make([]byte, answerSize)}}
		m, back, there := s.access(), make([]byte, 1000), bytes.Repeat([]byte{7}, 1000)
		took, err := m.message(t.Context(), there)
		if err != nil || took <= 0 {
			t.Fatalf("%s: %v, %v", network, took, err)
		}
		there[0] = 8
		err = errors.Join(m.put(t.Context(), 0, 500, there), m.get(t.Context(), 0, 500, back), m.add(t.Context()),
			m.add(t.Context()))
		if err != nil || !bytes.Equal(there, back) || s.answerBufs[0][0] != 1 {
			t.Errorf("%s: %v, word %d, %v", network, err, s.answerBufs[0][0], back[:2])
		}
		if network == "tcp" { // a stranger's: it would be outside
			if err := m.get(t.Context(), 0, int64(len(mem))-8, back); err == nil {
				t.Error("bytes outside of the memory were given")
			}
		}
		s.close()
	}
}

// TestMemoryEnds: what cannot be is refused, and an interrupt ends it with what there is.
func TestMemoryEnds(t *testing.T) {
	cfg := MemoryConfig{
		NodesConfig: nodesTestConfig(t, "quic"),
		Sizes:       []config.Bytes{8},
		Duration:    10 * time.Millisecond,
		Concurrency: 1,
	}
	for setting, wrong := range map[string]func(c *MemoryConfig){
		"sizes":    func(c *MemoryConfig) { c.Sizes = []config.Bytes{memorySize + 1} },
		"lanes":    func(c *MemoryConfig) { c.Concurrency = 0 },
		"duration": func(c *MemoryConfig) { c.Duration = 1 },
		"carrier":  func(c *MemoryConfig) { c.Carrier = "pigeon" },
	} {
		c := cfg
		wrong(&c)
		var refused *UsageError
		if _, err := MeasureNodes(t.Context(), &c); !errors.As(err, &refused) || refused.Setting != setting {
			t.Errorf("%s: %v", setting, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	cfg.Duration = time.Hour
	r, err := MeasureNodes(ctx, &cfg)
	if err != nil && r == nil {
		return // it had not begun
	}
	if err != nil || !r.Interrupted {
		t.Errorf("%v: %+v", err, r)
	}
}
