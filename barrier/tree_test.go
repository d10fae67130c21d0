package barrier

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"testing"
)

// brackets are drawn by hand: for each rank with children, those it beats,
// round by round.
var brackets = map[int]string{
	1:  "",
	2:  "0:1",
	3:  "0:1,2",
	4:  "0:1,2 2:3",
	5:  "0:1,2,4 2:3",
	6:  "0:1,2,4 2:3 4:5",
	7:  "0:1,2,4 2:3 4:5,6",
	8:  "0:1,2,4 2:3 4:5,6 6:7",
	9:  "0:1,2,4,8 2:3 4:5,6 6:7",
	10: "0:1,2,4,8 2:3 4:5,6 6:7 8:9",
	11: "0:1,2,4,8 2:3 4:5,6 6:7 8:9,10",
	12: "0:1,2,4,8 2:3 4:5,6 6:7 8:9,10 10:11",
	13: "0:1,2,4,8 2:3 4:5,6 6:7 8:9,10,12 10:11",
	14: "0:1,2,4,8 2:3 4:5,6 6:7 8:9,10,12 10:11 12:13",
	15: "0:1,2,4,8 2:3 4:5,6 6:7 8:9,10,12 10:11 12:13,14",
	16: "0:1,2,4,8 2:3 4:5,6 6:7 8:9,10,12 10:11 12:13,14 14:15",
	17: "0:1,2,4,8,16 2:3 4:5,6 6:7 8:9,10,12 10:11 12:13,14 14:15",
}

func TestTournamentBrackets(t *testing.T) {
	for n := 1; n <= 17; n++ {
		tr := tree{Tournament, n}
		var drawn []string
		for r := range n {
			var beaten []string
			for i := range tr.children(r) {
				beaten = append(beaten, fmt.Sprint(tr.child(r, i)))
			}
			if beaten != nil {
				drawn = append(drawn, fmt.Sprintf("%d:%s", r, strings.Join(beaten, ",")))
			}
		}
		if got := strings.Join(drawn, " "); got != brackets[n] {
			t.Errorf("bracket of %d:\n got %s\nwant %s", n, got, brackets[n])
		}
	}
}

// TestTournamentIsPlayedRoundByRound derives the same bracket the way the
// document tells it: pairs, winners go on, until one is left.
func TestTournamentIsPlayedRoundByRound(t *testing.T) {
	for n := 1; n <= 130; n++ {
		tr := tree{Tournament, n}
		playing := make([]int, n)
		for r := range playing {
			playing[r] = r
		}
		rounds := 0
		for ; len(playing) > 1; rounds++ {
			var winners []int
			for p := 0; p < len(playing); p += 2 {
				winner := playing[p]
				winners = append(winners, winner)
				if p+1 < len(playing) {
					loser := playing[p+1]
					if i, ok := tr.childIndex(winner, loser); !ok || i != rounds || tr.parent(loser) != winner {
						t.Fatalf("n=%d: %d should lose against %d in round %d", n, loser, winner, rounds)
					}
				}
			}
			playing = winners
		}
		if rounds != roundsOf(Tournament, n) {
			t.Errorf("n=%d: %d rounds played, Rounds says %d", n, rounds, roundsOf(Tournament, n))
		}
	}
}

func TestTreeIsConsistent(t *testing.T) {
	for _, kind := range allKinds {
		for n := 1; n <= 70; n++ {
			tr := tree{kind, n}
			edges := 0
			for r := range n {
				for i := range tr.children(r) {
					c := tr.child(r, i)
					if j, ok := tr.childIndex(r, c); !ok || j != i || tr.parent(c) != r || !tr.adjacent(r, c) || !tr.adjacent(c, r) {
						t.Fatalf("%s n=%d: child %d of %d is %d, and back", kind, n, i, r, c)
					}
					edges++
				}
				if _, ok := tr.childIndex(r, r); ok || tr.adjacent(r, r) {
					t.Fatalf("%s n=%d: %d is its own neighbour", kind, n, r)
				}
			}
			want := n - 1
			if kind == None || kind == Dissemination {
				want = 0
			}
			if edges != want {
				t.Errorf("%s n=%d: %d edges, want %d", kind, n, edges, want)
			}
		}
	}
}

// TestTowards walks from every rank to every other one.
func TestTowards(t *testing.T) {
	for _, kind := range []Kind{Central, Tournament} {
		for _, n := range []int{2, 3, 7, 16, 33} {
			tr := tree{kind, n}
			for from := range n {
				for to := range n {
					hops := 0
					for at := from; at != to; hops++ {
						next := tr.nextHop(at, to)
						if next < 0 || !tr.adjacent(at, next) || hops > 2*bits.Len(uint(n)) {
							t.Fatalf("%s n=%d: from %d to %d strays at %d", kind, n, from, to, at)
						}
						at = next
					}
				}
			}
		}
	}
}

func TestKindNames(t *testing.T) {
	for i := range Kinds {
		k := Kind(i)
		if back, err := ParseKind(k.String()); err != nil || back != k {
			t.Errorf("%s does not come back from its name: %v", k, err)
		}
	}
	for _, name := range []string{"", "None", "tournament ", "disseminate"} {
		if k, err := ParseKind(name); err == nil {
			t.Errorf("ParseKind(%q) = %s", name, k)
		}
	}
}

func TestNewCoreRefuses(t *testing.T) {
	for _, c := range []struct {
		kind    Kind
		n, rank int
		want    string
	}{
		{Kind(7), 4, 0, "barrier kind 7 is unknown"},
		{Central, 0, 0, "a barrier of 0 ranks is impossible"},
		{Central, maxRanks + 1, 0, "is impossible"},
		{Central, 4, 4, "rank 4 is not in a barrier of 4 ranks"},
		{Central, 4, -1, "rank -1 is not in a barrier of 4 ranks"},
	} {
		if _, err := NewCore(c.kind, c.n, c.rank); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("NewCore(%s, %d, %d): %v, want %q", c.kind, c.n, c.rank, err, c.want)
		}
	}
	if _, err := NewCore(Tournament, maxRanks, maxRanks-1); err != nil {
		t.Error(err)
	}
}

func TestCulprits(t *testing.T) {
	rep := func(rank int, entered uint64, waits ...int) report { return report{rank, entered, waits} }
	for _, c := range []struct {
		name    string
		reports []report
		want    []int
	}{
		{"nobody reports", nil, nil},
		{"nobody has begun", []report{rep(0, 0), rep(1, 0)}, nil},
		{"one has not entered", []report{rep(0, 5, 1), rep(1, 4), rep(2, 5, 0)}, []int{1}},
		{"one is silent", []report{rep(0, 5, 2), rep(1, 5, 0)}, []int{2}},
		{"those behind a silent one are not accused", []report{rep(0, 5, 4), rep(1, 5, 0), rep(2, 5, 0)}, []int{4}},
		{"silent and absent", []report{rep(0, 5, 1, 2), rep(1, 4)}, []int{1, 2}},
		{"a message is lost", []report{rep(0, 5, 1), rep(1, 5, 0)}, nil},
		{"one has left", []report{rep(0, 5), rep(1, 5, 0)}, nil},
		{"further reports win", []report{rep(0, 5, 1), rep(1, 4), rep(1, 5, 0)}, nil},
		{"waits of an older report do not count", []report{rep(0, 5, 1), rep(1, 4, 3), rep(1, 5, 0)}, nil},
		{"waits of the epoch before do not count", []report{rep(0, 5, 1), rep(1, 4, 3)}, []int{1}},
	} {
		if got := culprits(c.reports); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// roundsOf is how many steps the messages of one direction take when a rank handles one message per step.
func roundsOf(kind Kind, n int) int {
	switch kind {
	case Central:
		return n - 1
	case None:
		return 0
	}
	return bits.Len(uint(n - 1))
}
