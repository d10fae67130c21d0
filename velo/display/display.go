package display

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"

	"ringlet/event"
	"ringlet/event/selection"
	"ringlet/filter"
	"ringlet/velo"
	"ringlet/velo/vertex"
)

// Path is the path at which Handler is mounted.
const Path = "/display/vertex"

// maxBody is the limit of a request in bytes: an event of full boards has 100 · 264 bytes, a third more in base64, and
// some words.
const maxBody = 1 << 20

// Point is the place of a vertex, in mm.
type Point struct {
	Kind string  `json:"kind"`
	X    float64 `json:"x"`
	Y    float64 `json:"y"`
	Z    float64 `json:"z"`
}

// Truth is what the simulation drew for an event.
type Truth struct {
	Displaced bool    `json:"displaced"` // the event has a decay that the filter looks for
	Vertices  []Point `json:"vertices"`
}

// Config is what a display is made with.
type Config struct {
	// Detector returns the detector of the current events. If it is nil, or returns nil, the default one is taken.
	Detector func() (*velo.Geometry, error)
	// Truth returns the truth of an event of a run; false if it is not known. It may be nil.
	Truth func(run uint32, event uint64) (Truth, bool)
}

// postedEvent is one event, in the JSON of the tap.
type postedEvent struct {
	Run       uint32     `json:"run"`
	Event     uint64     `json:"event"`
	Fragments []fragment `json:"fragments"`
}

type fragment struct {
	Source uint16         `json:"source"`
	Type   event.BankType `json:"type"`
	Data   []byte         `json:"data"`
}

// pageAnswer is what the page draws.
type pageAnswer struct {
	vertex.Picture
	Boards        int     `json:"boards"`  // boards with a fragment
	BoardsMissing int     `json:"lacking"` // boards of the detector without one
	Clusters      int     `json:"clusters"`
	Accepted      bool    `json:"accepted"`
	Score         float64 `json:"score"` // of the secondary vertex; 0 without one
	Truth         *Truth  `json:"truth,omitempty"`
}

// handler has one finder. Requests use it one after the other, each for some hundred microseconds.
type handler struct {
	cfg             Config
	defaultGeometry *velo.Geometry

	mu             sync.Mutex     // guards the fields below
	finderGeometry *velo.Geometry // of finder
	finder         *vertex.Finder
}

// Handler draws events that are posted to it.
func Handler(cfg Config) (http.Handler, error) {
	g, err := velo.New(velo.Default())
	if err != nil {
		return nil, err
	}
	h := &handler{cfg: cfg, defaultGeometry: g}
	return h, h.setDetector(g)
}

// setDetector replaces the finder if it is not one of geometry g.
func (h *handler) setDetector(g *velo.Geometry) error {
	if g == nil {
		g = h.defaultGeometry
	}
	if g == h.finderGeometry {
		return nil
	}
	d, err := vertex.NewDetector(g)
	if err != nil {
		return err
	}
	h.finderGeometry, h.finder = g, vertex.NewFinder(d)
	return nil
}

// ServeHTTP answers a POST of an event.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", "POST")
		http.Error(w, "an event is posted to be drawn", http.StatusMethodNotAllowed)
		return
	}
	var e postedEvent
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&e); err != nil {
		refuse(w, fmt.Errorf("the event cannot be read: %w", err))
		return
	}
	a, err := h.findAndDraw(&e)
	if err != nil {
		refuse(w, err)
		return
	}
	if h.cfg.Truth != nil {
		if t, known := h.cfg.Truth(e.Run, e.Event); known {
			a.Truth = &t
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(a) // fails only if the browser has closed the connection
}

// refuse answers with err, in the form of the API's errors.
func refuse(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	_ = json.NewEncoder(w).Encode(map[string]string{"message": err.Error()})
}

// findAndDraw runs the finder on an event, and returns what the page draws.
func (h *handler) findAndDraw(e *postedEvent) (a *pageAnswer, err error) {
	ev := selection.Event{Number: e.Event}
	for _, f := range e.Fragments {
		ev.Fragments = append(ev.Fragments, selection.Fragment{Source: f.Source, Type: f.Type, Data: f.Data})
	}
	var g *velo.Geometry
	if h.cfg.Detector != nil {
		if g, err = h.cfg.Detector(); err != nil {
			return nil, err
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.setDetector(g); err != nil {
		return nil, err
	}
	a = &pageAnswer{}
	if a.Boards, a.Clusters, err = h.finder.AddEvent(&ev); err != nil {
		return nil, err
	}
	found := h.finder.Find(nil)
	v := h.finder.Verdict(&found)
	a.Picture = h.finder.Picture(&found)
	a.BoardsMissing, a.Accepted = h.finderGeometry.Boards()-a.Boards, v.Decision == filter.Accepted
	if found.HasSecondary {
		a.Score = found.Secondary.Score
	}
	return a, nil
}
