package pattern

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"ringlet/testkit/must"
)

// defaultFragmentSize is the mean fragment of LHCb-EB §V.A, in bytes.
const defaultFragmentSize = 133

// mean returns the mean fragment size of a source, in bytes, without what is larger on purpose.
func (p *Pattern) mean(source uint16) float64 { return p.meanByGroup[p.group(source)] }

func mustNew(t testing.TB, c Config) *Pattern {
	t.Helper()
	p, err := New(c)
	must.OK(t, err)
	return p
}

// TestWords holds the rule of doc.go against values computed from the published splitmix64, written out by hand here.
func TestWords(t *testing.T) {
	finalise := func(z uint64) uint64 {
		z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9
		z = (z ^ (z >> 27)) * 0x94d049bb133111eb
		return z ^ (z >> 31)
	}
	const c1, c2 = uint64(0x9e3779b97f4a7c15), uint64(0xd1b54a32d192ed03)
	seed, source, event := uint64(7), uint64(5), uint64(1000)
	h := finalise(finalise(seed+source*c1) + event*c1)

	p := mustNew(t, Config{
		Seed:         7,
		Sources:      6,
		FragmentSize: 45,
		Model:        Constant,
	})
	got := make([]byte, 45)
	p.Fill(got, 5, 1000)
	for i := range got {
		var word [8]byte
		binary.LittleEndian.PutUint64(word[:], h+uint64(i/8)*c2)
		if got[i] != word[i%8] {
			t.Fatalf("byte %d is %#x, the rule says %#x", i, got[i], word[i%8])
		}
	}
	// The first outputs of splitmix64 seeded with 1234567 (its authors' test vector).
	state := uint64(1234567)
	for _, want := range []uint64{6457827717110365317, 3203168211198807973, 9817491932198370423} {
		state += c1
		if mix(state) != want {
			t.Fatalf("mix: got %d, splitmix64 gives %d", mix(state), want)
		}
	}
}

func TestMeans(t *testing.T) {
	for _, tc := range []struct {
		name    string
		c       Config
		sources []float64 // mean of each source
	}{
		{"three groups", Config{Sources: 3, FragmentSize: 100}, []float64{84, 99, 117}},
		{"two of each", Config{Sources: 6, FragmentSize: 100}, []float64{84, 99, 117, 84, 99, 117}},
		{"four sources", Config{Sources: 4, FragmentSize: 100}, []float64{56, 132, 156, 56}},
		{"two sources", Config{Sources: 2, FragmentSize: 100}, []float64{200 * .28 / .61, 200 * .33 / .61}},
		{"one source", Config{Sources: 1, FragmentSize: 100}, []float64{100}},
		{"poisson", Config{Sources: 2, FragmentSize: 100, Model: Poisson}, []float64{100, 100}},
		{"constant", Config{Sources: 2, FragmentSize: 160, Model: Constant}, []float64{160, 160}},
		{"empty", Config{Sources: 3, FragmentSize: 0}, []float64{0, 0, 0}},
		{"large", Config{Sources: 3, FragmentSize: 50000}, []float64{42000, 49500, 58500}},
		{"wide", Config{Sources: 3, FragmentSize: 3e6}, []float64{2.52e6, 2.97e6, 3.51e6}},
		{"in steps", Config{Sources: 1, FragmentSize: 1 << 29}, []float64{1 << 29}},
		{"constant and wide", Config{Sources: 2, FragmentSize: 1<<30 - 1, Model: Constant}, []float64{1<<30 - 1, 1<<30 - 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := mustNew(t, tc.c)
			total := 0.0
			for s, want := range tc.sources {
				if got := p.mean(uint16(s)); math.Abs(got-want) > 1e-9*want {
					t.Errorf("source %d: mean %g, want %g", s, got, want)
				}
				total += p.mean(uint16(s))
				sum := 0.0
				for i := range uint64(1 << tableBits) {
					sum += float64(p.sizes[p.group(uint16(s))].lookUp(i << (64 - tableBits)))
				}
				if got := sum / (1 << tableBits); math.Abs(got-want) > 0.02+1e-4*want {
					t.Errorf("source %d: the table's mean is %g, want %g", s, got, want)
				}
			}
			if f := float64(tc.c.FragmentSize); math.Abs(total/float64(tc.c.Sources)-f) > 1e-9*f {
				t.Errorf("mean over all sources is %g, want %g", total/float64(tc.c.Sources), f)
			}
		})
	}
}

// TestPoisson compares the table with the distribution function computed the ordinary way.
func TestPoisson(t *testing.T) {
	for _, mean := range []float64{0.3, 1, 7.5, 112, 133, 155.6, 400} {
		var tab sizeTable
		if !fillPoissonTable(&tab, mean) {
			t.Fatal(mean)
		}
		var variance float64
		for i, size := range tab.steps {
			u := (float64(i) + 0.5) / float64(len(tab.steps))
			below, upto := 0.0, 0.0
			for k := 0; k <= int(size); k++ {
				lg, _ := math.Lgamma(float64(k) + 1)
				below, upto = upto, upto+math.Exp(float64(k)*math.Log(mean)-mean-lg)
			}
			if u < below-1e-9 || u > upto+1e-9 {
				t.Fatalf("mean %g: size %d at quantile %g, which lies outside (%g, %g]", mean, size, u, below, upto)
			}
			variance += (float64(size) - mean) * (float64(size) - mean) / float64(len(tab.steps))
			if i%64 != 0 && i > 64 && i < len(tab.steps)-64 { // the slow sum is not needed everywhere
				continue
			}
		}
		if math.Abs(variance/mean-1) > 0.02 {
			t.Errorf("mean %g: variance %g", mean, variance)
		}
	}
}

func TestSizesFollowTheTable(t *testing.T) {
	p := mustNew(t, Config{Seed: 3, Sources: 3, FragmentSize: defaultFragmentSize})
	const events = 200_000
	total, largest := 0, [3]int{}
	for s := range uint16(3) {
		sum := 0
		for e := range uint64(events) {
			n := p.Size(s, e)
			sum += n
			largest[s] = max(largest[s], n)
		}
		total += sum
		if got, want := float64(sum)/events, p.mean(s); math.Abs(got-want) > 0.15 { // 5 standard deviations of the mean
			t.Errorf("source %d: mean %g, want %g", s, got, want)
		}
		if largest[s] != p.MaxSize(s) {
			t.Errorf("source %d: largest %d, bound %d", s, largest[s], p.MaxSize(s))
		}
	}
	if got := float64(total) / events / 3; math.Abs(got-defaultFragmentSize) > 0.1 {
		t.Errorf("mean over all %g", got)
	}
}

func TestConfigRefused(t *testing.T) {
	for want, c := range map[string]Config{
		"sources: 0":        {},
		"sources: 65537":    {Sources: 65537},
		"size: a mean of -": {Sources: 1, FragmentSize: -1},
		"a fragment can":    {Sources: 3, FragmentSize: 1e9},
		"and 1073741824":    {Sources: 3, FragmentSize: 1<<30 + 1},
		"model: 9":          {Sources: 3, Model: 9},
		"align: 2^13":       {Sources: 3, Align: 13},
		"take up to 1500000000": {Sources: 3, FragmentSize: 300e6, Model: Constant,
			LargeFragments: LargeFragments{
				FirstSource: 1,
				Sources:     1,
				Packing:     1,
				MEPInterval: 2,
				Factor:      5,
			}},
		"a factor of 0 in MEPs": {Sources: 3, LargeFragments: LargeFragments{Sources: 1, Packing: 1, MEPInterval: 2}},
	} {
		_, err := New(c)
		var ce *ConfigError
		if !errors.As(err, &ce) || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", c, err, want)
		}
	}
	for _, m := range []Model{LHCb, Poisson, Constant} {
		if back, err := ParseModel(m.String()); err != nil || back != m {
			t.Errorf("%v: %v %v", m, back, err)
		}
	}
	if _, err := ParseModel("gauss"); err == nil || !strings.Contains(err.Error(), "lhcb, poisson, constant") {
		t.Error(err)
	}
}

// TestFillPads holds fill to its promise about the bytes after the fragment, and mismatch to finding any changed byte.
func TestFillPads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(0, 300).Draw(t, "size")
		capacity := size + rapid.IntRange(0, 40).Draw(t, "room")
		w := rapid.Uint64().Draw(t, "word")
		buf := bytes.Repeat([]byte{0xEE}, capacity)
		fillWords(buf, size, w)
		if off, _, _ := mismatch(buf[:size], w); off != -1 {
			t.Fatalf("byte %d of what was filled is wrong", off)
		}
		for i := size; i < capacity; i++ {
			if buf[i] != 0xEE && (buf[i] != 0 || i >= size+8) {
				t.Fatalf("byte %d after the fragment is %#x", i-size, buf[i])
			}
		}
		if size%8 != 0 && capacity-size >= 8 && buf[size] != 0 {
			t.Fatal("padding is not zero")
		}
		if size > 0 {
			at := rapid.IntRange(0, size-1).Draw(t, "at")
			flip := byte(1 << rapid.IntRange(0, 7).Draw(t, "bit"))
			buf[at] ^= flip
			off, want, got := mismatch(buf[:size], w)
			if off != at || got != buf[at] || want != got^flip {
				t.Fatalf("byte %d was changed, mismatch says %d (%#x for %#x)", at, off, got, want)
			}
		}
	})
}

// TestLarge holds that what is larger on purpose is larger by the factor, and nothing else is different.
func TestLarge(t *testing.T) {
	c := Config{Seed: 3, Sources: 6, FragmentSize: defaultFragmentSize}
	plain := mustNew(t, c)
	c.LargeFragments = LargeFragments{
		FirstSource: 2,
		Sources:     2,
		Packing:     10,
		MEPInterval: 3,
		Factor:      5,
	}
	large := mustNew(t, c)
	for source := range uint16(6) {
		isLarge, most := source == 2 || source == 3, plain.MaxSize(source)
		for ev := range uint64(90) {
			want := plain.Size(source, ev)
			if isLarge && ev/10%3 == 2 {
				want *= 5
			}
			if got := large.Size(source, ev); got != want {
				t.Fatalf("source %d, event %d: %d bytes, want %d", source, ev, got, want)
			}
		}
		if isLarge {
			most *= 5
		}
		if got := large.MaxSize(source); got != most {
			t.Errorf("source %d: at most %d bytes, want %d", source, got, most)
		}
	}
}
