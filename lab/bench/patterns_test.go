package bench

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ringlet/node/config"
	"ringlet/shmem"
	"ringlet/transport"
)

// TestWords: each word has one meaning, and memory that nobody wrote has none.
func TestWords(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		source := rapid.IntRange(0, 254).Draw(t, "source")
		seq := rapid.Uint64Range(0, wordSequence).Draw(t, "sequence")
		index := rapid.IntRange(0, 1<<16-1).Draw(t, "index")
		if s, q, i := decodeWord(word(source, seq, index)); s != source || q != seq || i != index {
			t.Fatalf("the word %d, %d, %d is read as %d, %d, %d", source, seq, index, s, q, i)
		}
	})
	if source, _, _ := decodeWord(0); source != -1 {
		t.Errorf("memory that nobody wrote is of source %d", source)
	}
}

// TestWrongWords: a damaged bit, a write of another sequence and one of another sender are seen.
func TestWrongWords(t *testing.T) {
	b := make([]byte, 128)
	fillWords(b, 2, 7)
	if n := countWrong(b, 2, 7); n != 0 {
		t.Fatalf("%d words are wrong", n)
	}
	if countWrong(b, 2, 8) != 16 || countWrong(b, 1, 7) != 16 {
		t.Error("words of another write are taken for this one's")
	}
	b[77] ^= 4
	if n := countWrong(b, 2, 7); n != 1 {
		t.Errorf("a damaged bit makes %d words wrong", n)
	}
}

// TestCheck: what a receiver finds wrong is counted, and said once; it is not lost.
func TestCheck(t *testing.T) {
	mem := make([]byte, 4*32)
	l := newFlow(1, 0, 32, 1, mem)
	for w := range l.windowWrites {
		l.refs = append(l.refs, shmem.Ref{Window: uint32(w), Gen: 1})
		fillWords(mem[w*32:], 1, uint64(w))
	}
	l.creditInterval = 100 // none is given here
	s := &station{end: &end{}, inFlows: []*flow{nil, l}}
	place := func(w uint64, length uint32) {
		s.Placed(1, transport.Placement{Ref: l.refs[w], Length: length, Imm: w})
	}
	place(2, 32) // out of order
	if l.writesInSequence != 0 {
		t.Errorf("%d writes in sequence", l.writesInSequence)
	}
	place(0, 32)
	place(1, 32)
	if l.writesInSequence != 3 || l.checkedWrites.Load() != 3 || l.wrongWords.Load() != 0 {
		t.Errorf("%d in sequence, %d checked, %d wrong", l.writesInSequence, l.checkedWrites.Load(), l.wrongWords.Load())
	}
	place(0, 32) // the second turn of a window that still has the words of the first
	place(3, 24)
	if l.wrongWords.Load() != 4 || l.misplaced.Load() != 1 {
		t.Errorf("%d words wrong, %d misplaced", l.wrongWords.Load(), l.misplaced.Load())
	}
	if why := l.firstWrong.Load(); why == nil || !strings.Contains(*why, "which is word 0 of write 0 from n1") {
		t.Errorf("it says %v", why)
	}
}

// nodesTestConfig is what all measurements between nodes of this process need.
func nodesTestConfig(t *testing.T, carrier string) NodesConfig {
	t.Helper()
	return NodesConfig{
		Version:  "test",
		Carrier:  carrier,
		Host:     host,
		Identity: anybody(t),
	}
}

// fewPatternsConfig measures with tiny numbers.
func fewPatternsConfig(t *testing.T, carrier string) *PatternsConfig {
	t.Helper()
	return &PatternsConfig{
		NodesConfig:    nodesTestConfig(t, carrier),
		Sizes:          []config.Bytes{24, 4 << 10},
		WordsPerSender: 3000,
		Duration:       time.Second,
	}
}

// TestPatterns: all that is sent arrives and is right, over each carrier.
func TestPatterns(t *testing.T) {
	for _, carrier := range carrierNames() {
		r, err := MeasureNodes(t.Context(), fewPatternsConfig(t, carrier))
		if err != nil || r.Interrupted || len(r.Rows) != 2*len(patterns) || r.Failure() != nil {
			t.Fatalf("%s: %v: %+v", carrier, err, r)
		}
		for _, row := range r.Rows {
			words := uint64(row.Size / wordSize)
			least := uint64(row.Senders) * ((3000 + words - 1) / words) * words
			if row.Pattern == "ping-pong" {
				least *= 2
			}
			if row.Words != least || row.Words != row.Writes*words || row.MByteS <= 0 || row.P50 <= 0 {
				t.Errorf("%s: %d words wanted: %+v", carrier, least, row)
			}
		}
		var text bytes.Buffer
		if err := r.WriteTable(&text); err != nil || !strings.Contains(text.String(), "93 MByte/s each, 279 of 300") {
			t.Errorf("%v: %s", err, text.String())
		}
	}
	nothingMapped(t)
}

// TestPatternsInterrupted: an interruption ends in good order, with the rows so far.
func TestPatternsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cfg := fewPatternsConfig(t, "quic")
	cfg.WordsPerSender, cfg.Duration = 0, 24*time.Hour
	cfg.Progress = func(string, int, int) { time.AfterFunc(50*time.Millisecond, cancel) }
	if r, err := MeasureNodes(ctx, cfg); err != nil || !r.Interrupted {
		t.Errorf("%v: %+v", err, r)
	}
	nothingMapped(t)
}

// TestPatternsRefused: settings that cannot be are refused before anything starts.
func TestPatternsRefused(t *testing.T) {
	for setting, change := range map[string]func(*PatternsConfig){
		"carrier":  func(c *PatternsConfig) { c.Carrier = "pigeon" },
		"sizes":    func(c *PatternsConfig) { c.Sizes = []config.Bytes{20} },
		"duration": func(c *PatternsConfig) { c.Duration = 0 },
		"spin":     func(c *PatternsConfig) { c.Spin = -1 },
	} {
		cfg := fewPatternsConfig(t, "quic")
		change(cfg)
		_, err := MeasureNodes(t.Context(), cfg)
		var refused *UsageError
		if !errors.As(err, &refused) || refused.Setting != setting {
			t.Errorf("%s: %v", setting, err)
		}
	}
}
