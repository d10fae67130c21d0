package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestWithout(t *testing.T) {
	for name, c := range map[string]struct{ text, out, want string }{
		"nobody":          {"nodes: 3\nseats: 2,1,0", "", "3 3 3 seats 2,1,0"},
		"a seat":          {"nodes: 3\nseats: 2,1,0", "1", "2 2 2 seats 1,-,0"},
		"beside a dummy":  {"nodes: 4\nseats: '0,-,3,2,1'", "3", "3 3 3 seats 0,-,-,2,1"},
		"a readout unit":  {"rus: 3\nbus: 2\nstreams: 5,3,1", "1", "4 2 2 streams 5,1"},
		"a builder unit":  {"rus: 2\nbus: 4\ngroups: 0-1;2-3\nnext: round-robin", "3", "5 2 3 groups 0;1-2"},
		"a whole group":   {"rus: 1\nbus: 3\ngroups: 0;1;2", "2", "3 1 2 groups 0;1"},
		"a partition":     {"nodes: 4\npartitions: 0-1;2-3", "0,1", "2 2 2 partitions 0-1"},
		"a weight":        {"nodes: 3\nnext: 3,2,1", "1", "2 2 2 next 3,1"},
		"sources":         {"nodes: 3\nsources: 9", "0", "2 2 2 streams 3"},
		"a region":        {"nodes: 3\ndiscipline: pull\nroi: 0,2:0.5", "0", "2 2 2 roi 1:0.5"},
		"what is large":   {"nodes: 3\ndebug:\n  large-ru: 2\n  large-every: 5", "1", "2 2 2 large 1 of 5"},
		"no more large":   {"nodes: 3\ndebug:\n  large-ru: 1\n  large-every: 5", "1", "2 2 2 large 0 of 0"},
		"what suspends":   {"nodes: 3\noverload: discard\ndebug:\n  suspend-bus: 1-2", "1", "2 2 2 suspend 1"},
		"no more suspend": {"nodes: 3\noverload: discard\ndebug:\n  suspend-bus: '2'", "2", "2 2 2"},
	} {
		full, err := Compose("x", []byte(c.text), nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		less, err := full.Without(func(rank int) bool {
			return slices.Contains(strings.Split(c.out, ","), fmt.Sprint(rank))
		}).Compose("less", nil, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := fmt.Sprint(less.Nodes, less.RUs, less.BUs)
		for _, s := range []struct{ key, is string }{
			{"seats", less.Seats},
			{"streams", string(less.Streams)},
			{"groups", string(less.Groups)},
			{"partitions", string(less.Partitions)},
			{"next", less.Next},
			{"roi", less.RoI},
			{"suspend", less.Debug.SuspendBUs},
			{"large", fmt.Sprintf("%d of %d", less.Debug.LargeRU, less.Debug.LargeEvery)},
		} {
			if strings.Contains(c.want, s.key) {
				got += " " + s.key + " " + s.is
			}
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	gone, err := Compose("x", []byte("nodes: 3\ndiscipline: pull\nroi: 1:0.5"), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = gone.Without(func(rank int) bool { return rank == 1 }).Compose("less", nil, nil)
	if err == nil || !strings.Contains(err.Error(), "roi") {
		t.Errorf("a region of no readout unit: %v", err)
	}
}

// Whoever takes no part: the others keep their seats, which are as many as before.
func TestSeatsOfThoseThatRemain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 12).Draw(t, "nodes")
		ranks := make([]int, 0, 2*n)
		for rank := range n {
			ranks = append(ranks, rank)
		}
		for range rapid.IntRange(0, n).Draw(t, "dummies") {
			ranks = append(ranks, DummySeat)
		}
		ranks = rapid.Permutation(ranks).Draw(t, "seats")
		texts := make([]string, len(ranks))
		for i, rank := range ranks {
			if texts[i] = "-"; rank != DummySeat {
				texts[i] = fmt.Sprint(rank)
			}
		}
		full, err := Compose("x", fmt.Appendf(nil, "nodes: %d\nseats: '%s'", n, strings.Join(texts, ",")), nil)
		if err != nil {
			t.Fatal(err)
		}
		out := rapid.SliceOfNDistinct(rapid.IntRange(0, n-1), 0, n-1, rapid.ID[int]).Draw(t, "out")
		less, err := full.Without(func(rank int) bool { return slices.Contains(out, rank) }).Compose("less", nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		seats, next := less.SeatRanks(), 0
		place := map[int]int{} // by new rank
		for i, rank := range seats {
			place[rank] = i
		}
		for rank := range n {
			if slices.Contains(out, rank) {
				continue
			}
			if was := slices.Index(ranks, rank); place[next] != was {
				t.Fatalf("rank %d sat at %d of %v, and sits at %d of %v", rank, was, ranks, place[next], seats)
			}
			next++
		}
		if len(seats) != len(ranks) || less.Nodes != next {
			t.Fatalf("%d of %d seats, %d of %d nodes", len(seats), len(ranks), less.Nodes, next)
		}
	})
}
