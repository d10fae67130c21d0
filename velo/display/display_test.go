package display

import (
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"ringlet/velo"
)

// post has a handler draw an event.
func post(t testing.TB, body string, cfg Config) (*httptest.ResponseRecorder, pageAnswer) {
	t.Helper()
	h, err := Handler(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return drawn(t, h, body)
}

func drawn(t testing.TB, h http.Handler, body string) (*httptest.ResponseRecorder, pageAnswer) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("POST", Path, strings.NewReader(body)))
	var a pageAnswer
	if w.Code == http.StatusOK {
		if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
			t.Fatal(err)
		}
	}
	return w, a
}

// lines is an event with straight tracks from z0 on the beam, in the middle of a sector of one half, on all its r
// boards.
func lines(t *testing.T, ev uint64, z0 float64, slopes ...float64) string {
	t.Helper()
	return linesIn(t, detector(t, velo.Default()), ev, z0, slopes...)
}

func detector(t *testing.T, l velo.Layout) *velo.Geometry {
	t.Helper()
	g, err := velo.New(l)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// linesIn is lines in a detector.
func linesIn(t *testing.T, g *velo.Geometry, ev uint64, z0 float64, slopes ...float64) string {
	t.Helper()
	e := postedEvent{Event: ev}
	for station := range len(g.Layout().Stations) {
		b := g.BoardOf(velo.R, station, 0)
		_, low, high := g.Sector(b, 0)
		var clusters []velo.Cluster
		for _, slope := range slopes {
			if at, ok := g.LocateR(b, slope*(g.Sensor(b).Z-z0), (low+high)/2); ok {
				clusters = append(clusters, velo.NewCluster(at.Strip, false))
			}
		}
		data := make([]byte, velo.MaxBoardSize)
		data = data[:velo.PutBoard(data, uint16(ev), b, clusters, 0)]
		e.Fragments = append(e.Fragments, fragment{Source: uint16(b), Type: velo.BankType, Data: data})
	}
	body, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// Tracks from one point are drawn from there, through their hits; what nobody knows is left out.
func TestDraws(t *testing.T) {
	body := lines(t, 70_000, 3, 0.06, 0.075, 0.09, 0.11, 0.13, 0.16)
	_, a := post(t, body, Config{})
	if a.Boards != 25 || a.BoardsMissing != 75 || a.Clusters == 0 || len(a.Hits) != a.Clusters || len(a.Planes) != 50 {
		t.Fatalf("%d boards, %d lacking, %d clusters, %d hits", a.Boards, a.BoardsMissing, a.Clusters, len(a.Hits))
	}
	if len(a.Primaries) != 1 || a.Primaries[0].Z < 2.5 || a.Primaries[0].Z > 3.5 || len(a.Tracks) != 6 {
		t.Errorf("%+v, %d tracks", a.Primaries, len(a.Tracks))
	}
	if a.Truth != nil || a.Secondary != nil || a.Accepted {
		t.Errorf("%+v", a)
	}
	want := Truth{Displaced: true, Vertices: []Point{{Kind: "collision", Z: 3}}}
	_, a = post(t, body, Config{Truth: func(_ uint32, ev uint64) (Truth, bool) { return want, ev == 70_000 }})
	if a.Truth == nil || len(a.Truth.Vertices) != 1 || !a.Truth.Displaced {
		t.Errorf("%+v", a.Truth)
	}
}

// Events are of the detector that there is at the time; one that is not known is told, and others are drawn after it.
func TestDrawsTheDetectorAtHand(t *testing.T) {
	moved := velo.Default()
	moved.Stations = slices.Clone(moved.Stations[:20])
	for i := range moved.Stations {
		moved.Stations[i] += 100
	}
	var at *velo.Geometry
	var unknown error
	h, err := Handler(Config{Detector: func() (*velo.Geometry, error) { return at, unknown }})
	if err != nil {
		t.Fatal(err)
	}
	draw := func(g *velo.Geometry, body string, z0 float64) {
		at = g
		_, a := drawn(t, h, body)
		if len(a.Primaries) != 1 || math.Abs(a.Primaries[0].Z-z0) > 0.5 || len(a.Tracks) != 6 {
			t.Errorf("%+v, %d tracks", a.Primaries, len(a.Tracks))
		}
	}
	slopes := []float64{0.06, 0.075, 0.09, 0.11, 0.13, 0.16}
	other := detector(t, moved)
	draw(other, linesIn(t, other, 7, 103, slopes...), 103)
	draw(nil, lines(t, 8, 3, slopes...), 3)
	unknown = errors.New("mine.yaml is not there")
	if w, _ := drawn(t, h, lines(t, 8, 3, slopes...)); !strings.Contains(w.Body.String(), unknown.Error()) {
		t.Error(w.Body)
	}
}

// What is no event of the detector is refused, in a sentence.
func TestRefuses(t *testing.T) {
	good := lines(t, 1, 0, 0.1)
	for body, want := range map[string]string{
		"":            "cannot be read",
		"[]":          "cannot be read",
		`{"event":1}`: "no fragment of a vertex detector",
		strings.Replace(good, `"event":1`, `"event":2`, 1):                          "ends with 1",
		`{"event":1,"fragments":[{"source":3,"type":8,"data":"AAAA"}]}`:             "source 3",
		`{"event":1,"fragments":[{"data":"` + strings.Repeat("A", maxBody) + `"}]}`: "cannot be read",
	} {
		if w, _ := post(t, body, Config{}); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%.60s: %d %s", body, w.Code, w.Body)
		}
	}
	h, err := Handler(Config{})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, httptest.NewRequest("GET", Path, nil)); w.Code != http.StatusMethodNotAllowed {
		t.Error(w.Code)
	}
}

// Whatever is posted is answered.
func FuzzHandler(f *testing.F) {
	f.Add(`{"event":1,"fragments":[{"source":3,"type":8,"data":"AAAA"}]}`)
	f.Add(`{}`)
	h, err := Handler(Config{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body string) {
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, httptest.NewRequest("POST", Path, strings.NewReader(body))); w.Code != http.StatusOK &&
			w.Code != http.StatusBadRequest {
			t.Error(w.Code)
		}
	})
}
