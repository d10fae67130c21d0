package memory

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anishathalye/porcupine"

	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
	"ringlet/transport/simnet"
)

var histories = flag.Int("histories", 40, "histories of eight clients whose words must be linearizable")

// wordInput is what a client did to a word.
type wordInput struct {
	kind kind // kindLoad: a read
	word int
	a, b uint64
}

type wordOutput struct {
	before  uint64
	unknown bool
}

// wordModel is a word: what is unknown may have been done at any time after it was asked for, or never, which is the
// same as at the end of the history.
var wordModel = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		by := map[int][]porcupine.Operation{}
		for _, o := range history {
			w := o.Input.(wordInput).word
			by[w] = append(by[w], o)
		}
		var out [][]porcupine.Operation
		for _, ops := range by {
			out = append(out, ops)
		}
		return out
	},
	Init: func() any { return uint64(0) },
	Step: func(state, input, output any) (bool, any) {
		word, in, out := state.(uint64), input.(wordInput), output.(wordOutput)
		ok := out.unknown || out.before == word
		switch in.kind {
		case kindAdd:
			return ok, word + in.a
		case kindSwap:
			return ok, in.a
		case kindCompare:
			if word == in.a {
				return ok, in.b
			}
		}
		return ok, word
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v → %+v", input, output) },
}

// TestWordsAreLinearizable: eight clients on three nodes, one of which owns the words, on a network that loses, doubles
// and reorders; some clients' processes are killed in the middle.
func TestWordsAreLinearizable(t *testing.T) {
	dir := t.TempDir()
	unknown, killed := 0, 0
	for seed := range uint64(*histories) {
		synctest.Test(t, func(t *testing.T) {
			u, k := history(t, seed, dir)
			unknown += u
			killed += k
		})
		if t.Failed() {
			t.Fatalf("history %d", seed)
		}
	}
	t.Logf("%d histories, %d transactions unknown, %d processes killed", *histories, unknown, killed)
	if *histories >= 20 && (unknown == 0 || killed == 0) {
		t.Errorf("%d unknown, %d killed: the test tries too little", unknown, killed)
	}
}

func history(t *testing.T, seed uint64, dir string) (unknown, killed int) {
	rng := rand.New(rand.NewPCG(seed, 17))
	w := newWorld(t, 3, simnet.Faults{
		Loss:      0.1 * rng.Float64(),
		Duplicate: 0.1 * rng.Float64(),
		Reorder:   0.3 * rng.Float64(),
		Delay:     time.Duration(rng.IntN(1000)) * time.Microsecond,
		Jitter:    100 * time.Microsecond,
	}, seed, dir)
	w.connect()
	defer w.close()
	seg := w.segment(PageSize)
	defer func() { must.OK(t, seg.Close()) }()
	_, err := w.spaces[0].Export("words", seg, allPages(1))
	must.OK(t, err)

	var mu sync.Mutex
	var ops []porcupine.Operation
	var wg sync.WaitGroup
	start := time.Now()
	for client := range 8 {
		rank := client % 3
		im, err := w.spaces[rank].Import(context.Background(), "words@n0")
		must.OK(t, err)
		seed := rng.Uint64()
		wg.Go(func() {
			for _, o := range work(im.InContext(client), 0, client, seed, start) {
				mu.Lock()
				ops = append(ops, o)
				if o.Output.(wordOutput).unknown {
					unknown++
				}
				mu.Unlock()
			}
		})
	}
	if victim := 1 + rng.IntN(2); rng.IntN(2) == 0 {
		time.Sleep(time.Duration(rng.IntN(20000)) * time.Microsecond)
		w.stop(victim)
		killed++
	} else if rng.IntN(3) == 0 {
		time.Sleep(time.Duration(rng.IntN(20000)) * time.Microsecond)
		w.fabric.Partition("n0", fmt.Sprintf("n%d", victim), true)
		killed++
	}
	patiently.Wait(t, wg.Wait)
	if got := porcupine.CheckOperationsTimeout(wordModel, ops, time.Minute); got != porcupine.Ok {
		t.Errorf("seed %d: %v: %d operations", seed, got, len(ops))
	}
	return unknown, killed
}

// work is what one client does. Time is virtual, so each call and each return has a moment of its own only by chance:
// equal ones count as at the same time. The words begin at base.
func work(im *Import, base int64, client int, seed uint64, start time.Time) (ops []porcupine.Operation) {
	rng := rand.New(rand.NewPCG(seed, 1))
	for range 12 {
		in := wordInput{word: rng.IntN(2), kind: []kind{kindAdd, kindSwap, kindCompare, kindLoad}[rng.IntN(4)]}
		in.a, in.b = uint64(rng.IntN(4)), uint64(rng.IntN(4))
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(1+rng.IntN(30))*time.Millisecond)
		called := time.Since(start).Nanoseconds()
		var before uint64
		var err error
		off := base + int64(8*in.word)
		switch in.kind {
		case kindAdd:
			before, err = im.Add(ctx, off, in.a)
		case kindSwap:
			before, err = im.Swap(ctx, off, in.a)
		case kindCompare:
			before, err = im.CompareAndSwap(ctx, off, in.a, in.b)
		case kindLoad:
			var b [8]byte
			err = im.Read(ctx, off, b[:])
			before = uint64(b[0]) | uint64(b[1])<<8
		}
		cancel()
		o := porcupine.Operation{
			ClientId: client,
			Input:    in,
			Call:     called,
			Output:   wordOutput{before: before},
			Return:   time.Since(start).Nanoseconds(),
		}
		switch OutcomeOf(err) {
		case Refused:
			if errors.Is(err, ErrLinkDown) || errors.Is(err, ErrClosed) {
				return ops
			}
			continue
		case Unknown:
			o.Output, o.Return = wordOutput{unknown: true}, int64(1)<<62
		}
		ops = append(ops, o)
		time.Sleep(time.Duration(rng.IntN(300)) * time.Microsecond)
	}
	return ops
}
