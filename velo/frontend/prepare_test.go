package frontend

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"ringlet/velo"
)

func TestSubtract(t *testing.T) {
	dst := make([]int16, 4)
	subtractPedestals(dst, []uint8{0, 90, 255, 100}, []uint8{255, 90, 0, 88})
	if want := []int16{-255, 0, 255, 12}; !slices.Equal(dst, want) {
		t.Errorf("%v, want %v", dst, want)
	}
}

// TestCommonMode: whatever straight line of whole steps lies under a link, nothing of it is left, and what hits, masked
// strips and other links have changes nothing for the others.
func TestCommonMode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var masked hitMask
		strips := make([]int16, 4*stripsPerLink)
		want := make([]int16, len(strips))
		for at := 0; at < len(strips); at += stripsPerLink {
			level := rapid.Int16Range(-30, 30).Draw(t, "level")
			for i := range stripsPerLink {
				strips[at+i] = level
			}
			hit, amplitude := rapid.IntRange(0, stripsPerLink-1).Draw(t, "hit"), rapid.Int16Range(40, 150).Draw(t, "amplitude")
			strips[at+hit] += amplitude
			want[at+hit] = amplitude
			bad := rapid.IntRange(0, stripsPerLink-1).Draw(t, "bad")
			if bad == hit {
				continue
			}
			masked[(at+bad)/64] |= 1 << ((at + bad) % 64)
			off := rapid.Int16Range(-100, 100).Draw(t, "off")
			strips[at+bad] += off
			want[at+bad] = off
		}
		subtractCommonMode(strips, &masked, 10)
		if !slices.Equal(strips, want) {
			t.Fatalf("%v is left, want %v", strips, want)
		}
	})
	slope := make([]int16, stripsPerLink)
	for i := range slope {
		slope[i] = int16(i - 7)
	}
	subtractCommonMode(slope, &hitMask{}, 100)
	if slices.ContainsFunc(slope, func(v int16) bool { return v != 0 }) {
		t.Errorf("of a slope %v is left", slope)
	}
	all := hitMask{^uint64(0)}
	one := []int16{5, 6, 7}
	subtractCommonMode(one, &all, 10)
	if !slices.Equal(one, []int16{5, 6, 7}) {
		t.Errorf("a link that is masked became %v", one)
	}
}

func TestHits(t *testing.T) {
	masked := hitMask{1 << 3}
	var hits hitMask
	findHits(&hits, []int16{7, 6, -90, 200, 8}, &masked, 6)
	if hits[0] != 1|1<<4 {
		t.Errorf("hits %b", hits[0])
	}
}

// TestClusters: as L1-farm §3.2 has it, and never over the border of a sector or a zone.
func TestClusters(t *testing.T) {
	d := detector(t, nil)
	c := velo.NewCluster
	for _, k := range []struct {
		kind   velo.Kind
		strips []int
		want   []velo.Cluster
	}{
		{velo.R, nil, nil},
		{velo.R, []int{5}, []velo.Cluster{c(5, false)}},
		{velo.R, []int{5, 6}, []velo.Cluster{c(5, true)}},
		{velo.R, []int{5, 6, 7}, []velo.Cluster{c(5, true), c(7, false)}},
		{velo.R, []int{5, 6, 7, 8}, []velo.Cluster{c(5, true), c(7, true)}},
		{velo.R, []int{63, 64}, []velo.Cluster{c(63, true)}},
		{velo.R, []int{62, 63, 64}, []velo.Cluster{c(62, true), c(64, false)}},
		{velo.R, []int{511, 512}, []velo.Cluster{c(511, false), c(512, false)}},
		{velo.Phi, []int{511, 512}, []velo.Cluster{c(511, true)}},
		{velo.Phi, []int{682, 683, 684}, []velo.Cluster{c(682, false), c(683, true)}},
		{velo.R, []int{0, 2046, 2047}, []velo.Cluster{c(0, false), c(2046, true)}},
	} {
		var hits hitMask
		for _, s := range k.strips {
			hits[s/64] |= 1 << (s % 64)
		}
		if got := appendClusters(nil, &hits, d.geo, k.kind); !slices.Equal(got, k.want) {
			t.Errorf("strips %v of a %v sensor: clusters %v, want %v", k.strips, k.kind, got, k.want)
		}
	}
}

// TestPreparationAllocatesNothing holds the steps, and an event as a whole.
func TestPreparationAllocatesNothing(t *testing.T) {
	for _, raw := range []bool{false, true} {
		e := detector(t, nil).newSimulator(1, raw)
		list := make([]velo.Cluster, 0, 100*velo.MaxStrips)
		once := func() {
			e.simulate(7)
			list = list[:0]
			for b := range 100 {
				list = e.appendBoardClusters(list, b)
			}
		}
		once()
		if a := testing.AllocsPerRun(2, once); a != 0 {
			t.Errorf("raw %v: %g allocations", raw, a)
		}
	}
}
