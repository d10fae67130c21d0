package cluster

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/memberlist"

	"pgregory.net/rapid"
	"ringlet/internal/connlimit"
)

// golden is written by hand from the layout in meta.go.
var golden = []byte{'R', 1, 1, 0, 6, 3, 'a', ':', '1', 3, 'b', ':', '2', 2, 'v', '3'}

func TestMetaGolden(t *testing.T) {
	m := Meta{
		Protocol: 1,
		Roles:    Readout | Builder,
		GRPCAddr: "a:1",
		QUICAddr: "b:2",
		Version:  "v3",
	}
	got, err := m.appendTo(nil)
	if err != nil || !bytes.Equal(got, golden) {
		t.Errorf("wrote % x, %v; want % x", got, err, golden)
	}
	back, err := decodeMeta(golden, protocolVersion)
	if err != nil || back != m {
		t.Errorf("read %+v, %v", back, err)
	}
}

func TestMetaRefuses(t *testing.T) {
	spoil := func(at int, to byte) []byte {
		b := bytes.Clone(golden)
		b[at] = to
		return b
	}
	for name, c := range map[string]struct {
		b    []byte
		want error
	}{
		"nothing":            {nil, errMeta},
		"magic":              {spoil(0, 'S'), errMeta},
		"form":               {spoil(1, 2), errMeta},
		"protocol":           {spoil(2, 2), errProtocol},
		"roles":              {spoil(4, 16), errMeta},
		"a spare of nothing": {spoil(4, 8), errMeta},
		"text too long":      {spoil(13, 3), errMeta},
		"bytes left":         {append(bytes.Clone(golden), 0), errMeta},
		"length missing":     {golden[:13], errMeta},
		"fixed part cut":     {golden[:4], errMeta},
	} {
		if _, err := decodeMeta(c.b, protocolVersion); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRoleWords(t *testing.T) {
	for word, can := range map[string][2]bool{
		"ru":    {true, false},
		"bu":    {false, true},
		"both":  {true, true},
		"spare": {true, true},
	} {
		r := ParseRole(word)
		if r.Word() != word || r.CanHold(true, false) != can[0] || r.CanHold(false, true) != can[1] ||
			r.CanHold(true, true) != (can[0] && can[1]) || !r.CanHold(false, false) {
			t.Errorf("%s is %v, whose word is %s", word, r, r.Word())
		}
	}
	if r := ParseRole("RU"); r != 0 || r.Word() != "none" {
		t.Errorf("an unknown word is %v", r)
	}
}

func FuzzMeta(f *testing.F) {
	f.Add([]byte{})
	f.Add(golden)
	f.Add(golden[:9])
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decodeMeta(b, protocolVersion)
		if err != nil {
			if !errors.Is(err, errMeta) && !errors.Is(err, errProtocol) {
				t.Fatalf("error of no kind: %v", err)
			}
			return
		}
		if len(b) > memberlist.MetaMaxSize {
			return // cannot come by gossip
		}
		if again, err := m.appendTo(nil); err != nil || !bytes.Equal(again, b) {
			t.Fatalf("% x reads as %+v, which writes % x, %v", b, m, again, err)
		}
	})
}

// FuzzMessage holds that no message of a member panics.
func FuzzMessage(f *testing.F) {
	for _, b := range [][]byte{nil, {msgLeaving}, []byte("Ln1"), []byte("Nn1"), []byte("Xn1")} {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := newCluster(config("n0", nil))
		if err != nil {
			t.Fatal(err)
		}
		c.members["n1"] = Member{Name: "n1"}
		c.handleMessage(b)
		if bad := c.counters.BadMessages.Load(); bad != 0 && len(b) > 1 && (b[0] == msgLeaving || b[0] == msgLeaveNoted) {
			t.Fatalf("%q counted as bad", b)
		}
	})
}

func TestNamesRankAsPeopleCount(t *testing.T) {
	names := []string{"n10", "n2", "n1a", "control", "n02", "n1", "", "m99", "n100000000000000000000", "n9"}
	sortByRank(names)
	want := []string{"", "control", "m99", "n1", "n1a", "n02", "n2", "n9", "n10", "n100000000000000000000"}
	if d := cmp.Diff(want, names); d != "" {
		t.Error(d)
	}
}

func TestNameOrderIsTotal(t *testing.T) {
	name := rapid.StringMatching(`[n0-2]{0,6}`)
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := name.Draw(t, "a"), name.Draw(t, "b"), name.Draw(t, "c")
		if CompareNames(a, b) != -CompareNames(b, a) {
			t.Fatalf("%q and %q are not ordered the same both ways", a, b)
		}
		if (CompareNames(a, b) == 0) != (a == b) {
			t.Fatalf("%q and %q are equal", a, b)
		}
		if CompareNames(a, b) <= 0 && CompareNames(b, c) <= 0 && CompareNames(a, c) > 0 {
			t.Fatalf("not transitive: %q %q %q", a, b, c)
		}
	})
}

func TestGossipLines(t *testing.T) {
	var out bytes.Buffer
	var c Counters
	h := gossipHandler{Handler: slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelInfo}), counters: &c,
		logLimiter: &connlimit.LogLimiter{}}
	l := slog.NewLogLogger(h, slog.LevelError)
	for _, line := range []string{
		"[DEBUG] memberlist: nothing to see",
		"[INFO] memberlist: Marking n1 as failed",
		"[ERR] memberlist: Conflicting address for n1. Mine: 1.2.3.4:5 Theirs: 1.2.3.4:6 Old state: 0",
		"[ERR] memberlist: Decrypt packet failed: " + textNoKey + " from=1.2.3.4:5",
		"[ERR] memberlist: failed to receive: " + textNoKey + " from=1.2.3.4:5",
		"[ERR] memberlist: failed to receive: EOF from=1.2.3.4:5",
		"Err: no level at all",
	} {
		l.Print(line)
	}
	got := out.String()
	for _, want := range []string{
		`level=INFO msg="gossip: Marking n1`, `level=WARN msg="gossip: Decrypt`, `level=INFO msg="gossip: Err: no level`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
	if strings.Contains(got, "nothing to see") || strings.Contains(got, "Conflicting") {
		t.Errorf("a debug line came through:\n%s", got)
	}
	if n := c.WrongKey.Load(); n != 2 {
		t.Errorf("%d wrong keys counted, want 2", n)
	}
}
