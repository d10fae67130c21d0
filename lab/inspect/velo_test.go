package inspect_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ringlet/event"
	"ringlet/lab/inspect"
	"ringlet/testkit/mfp"
	"ringlet/velo"
)

// boards is a MEP of two boards and two events, the last fragment of which is no board.
func boards(t testing.TB) []byte {
	t.Helper()
	c := velo.NewCluster
	fragment := func(ev uint16, board int, list ...velo.Cluster) mfp.Fragment {
		b := make([]byte, velo.MaxBoardSize)
		return mfp.Fragment{Type: velo.BankType, Data: b[:velo.PutBoard(b, ev, board, list, 0)]}
	}
	many := make([]velo.Cluster, 130)
	for i := range many {
		many[i] = c(3*i, true)
	}
	spoiled := fragment(8, 1, c(1, false))
	spoiled.Data[4] = 2
	b := make([]byte, event.MEPHeaderSize(2), 4096)
	var offsets []uint32
	for source, fragments := range [][]mfp.Fragment{
		{fragment(7, 0, c(5, false), c(10, true), c(2047, false)), fragment(8, 0)},
		{fragment(7, 1, many...), spoiled},
	} {
		offsets = append(offsets, uint32(len(b)/4))
		b = append(b, mfp.Build(event.MFPHeader{FirstEvent: 7, Source: uint16(source), Version: velo.Version},
			fragments...)...)
	}
	if _, err := event.PutMEPHeader(b, []uint16{0, 1}, offsets, uint32(len(b)/4)); err != nil {
		t.Fatal(err)
	}
	return b
}

// TestVertexDetector: the summary adds up what boards sent, and the dump names their strips.
func TestVertexDetector(t *testing.T) {
	path := filepath.Join(t.TempDir(), "boards.mep")
	if err := os.WriteFile(path, boards(t), 0o600); err != nil {
		t.Fatal(err)
	}
	look := func(o inspect.Options) string {
		var out bytes.Buffer
		if err := inspect.Inspect(t.Context(), &out, path, o); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	text := look(inspect.Options{})
	for _, want := range []string{
		"vertex detector: 2 boards, 3 fragments, and 1 that cannot be read",
		"of an event  65.0   65.0    0  130",
		"of a board  43.3   59.2    0  127",
		"98.5 % of the clusters have two strips",
		"full boards: 1, which left 3 clusters out",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	var report struct {
		V struct {
			Clusters int64 `json:"clusters"`
			Two      int64 `json:"of_two_strips"`
			Left     int64 `json:"clusters_lost"`
		} `json:"vertex_detector"`
	}
	if err := json.Unmarshal([]byte(look(inspect.Options{JSON: true})), &report); err != nil || report.V.Clusters != 130 ||
		report.V.Two != 128 || report.V.Left != 3 {
		t.Errorf("%+v, %v", report, err)
	}
	dump := look(inspect.Options{Mode: inspect.ModeDump})
	for _, want := range []string{
		"board 0, board event 7, lost 0, clusters 5 10+11 2047\n",
		"board 1, board event 7, lost 3, clusters 0+1 3+4 ",
		"no board velo board at offset ",
	} {
		if !strings.Contains(dump, want) {
			t.Errorf("%q is missing in\n%s", want, dump)
		}
	}
}
