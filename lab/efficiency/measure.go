package efficiency

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"time"

	"ringlet/event"
	"ringlet/event/velo"
	"ringlet/filter"
	"ringlet/filter/vertex"
	"ringlet/readoutunit/source/frontend"
)

// visibility is what makes a decay one that a filter could see.
type visibility struct {
	hits   int     // of a track on R sensors, and as many on φ sensors
	impact float64 // parameter of a track, mm
	p      float64 // momentum of a track, GeV
	flight float64 // from the collision to the decay along the beam, mm
}

// Two tracks of the decay must be so.
var (
	// visible is what the documents ask for: "at least three hits", an impact parameter "greater than 100 µm" (L1-farm
	// §3.4), a decay "a few mm apart" (L1-farm §1.1).
	visible = visibility{hits: 3, impact: 0.1, flight: 2}
	// clean leaves out what scattering and chance can imitate: the filter knows no momentum.
	clean = visibility{
		hits:   6,
		impact: 0.3,
		p:      5,
		flight: 5,
	}
)

// tracksSeen is the least of a decay.
const tracksSeen = 2

// batch is how many events are made before they are judged: their fragments fit into the caches that a builder unit
// would have them in, and the clock is read seldom.
const batch = 32

// Config of a measurement.
type Config struct {
	Version  string // of this program, for the report
	Command  string // that began it, likewise
	Events   uint64
	Seed     uint64
	Detector frontend.Config
}

// Measure simulates events, has the filter judge them, and holds what it says against the truth.
func Measure(ctx context.Context, cfg Config) (*Report, error) {
	d, err := frontend.New(cfg.Detector)
	if err != nil {
		return nil, err
	}
	silent, err := frontend.New(withoutNoise(cfg.Detector))
	if err != nil {
		return nil, err
	}
	r := &Report{
		Config: cfg,
		Began:  time.Now(),
		Data:   newData(),
		Quiet:  newData(),
		times:  make([]time.Duration, 0, min(cfg.Events, 1<<20)),
	}
	runtime.LockOSThread() // whose processor time is read
	defer runtime.UnlockOSThread()
	tables, err := vertex.NewDetector(d.Geometry())
	if err != nil {
		return nil, err
	}
	m := measurer{finder: vertex.NewFinder(tables), r: r}
	for _, of := range []struct {
		events   *events
		detector *frontend.Detector
	}{{&m.noisy, d}, {&m.quiet, silent}} {
		if err := of.events.setDetector(of.detector, cfg.Seed); err != nil {
			return nil, err
		}
	}
	for from := uint64(0); from < cfg.Events; from += batch {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := m.batch(from, min(from+batch, cfg.Events)); err != nil {
			return nil, err
		}
	}
	r.close()
	return r, nil
}

// events are made a batch at a time.
type events struct {
	maker  *frontend.Maker
	boards int
	memory []byte
	mfps   []event.MFP // of the batch, one of each board
}

// setDetector makes them of a detector.
func (e *events) setDetector(d *frontend.Detector, seed uint64) (err error) {
	e.boards = d.Geometry().Boards()
	e.memory = make([]byte, e.boards*frontend.MaxMFP(batch, 0))
	e.maker, err = frontend.NewMaker(d, frontend.MakerConfig{Seed: seed, Streams: e.boards, Truth: true})
	return err
}

// make makes a batch.
func (e *events) make(from, to uint64) error {
	e.mfps = e.mfps[:0]
	free := e.memory
	for b := range e.boards {
		size, _, err := e.maker.FillMFP(free, uint16(b), from, int(to-from), false)
		if err != nil {
			return err
		}
		mfp, err := event.ParseMFP(free[:size])
		if err != nil {
			return err
		}
		e.mfps, free = append(e.mfps, mfp), free[size:]
	}
	return nil
}

// measurer has the memory of a measurement.
type measurer struct {
	noisy, quiet events
	finder       *vertex.Finder
	r            *Report
	list         []decay
}

// batch makes events, judges them, and counts what they hold.
func (m *measurer) batch(from, to uint64) error {
	if err := m.noisy.make(from, to); err != nil {
		return err
	}
	truths := m.noisy.maker.Truths()
	used := processorTime()
	for i := range truths {
		if err := m.judge(&truths[i], i); err != nil {
			return err
		}
	}
	m.r.processor += processorTime() - used
	if err := m.quiet.make(from, to); err != nil {
		return err
	}
	for i := range truths {
		if err := errors.Join(m.r.Data.addBoard(m.noisy.mfps, i), m.r.Quiet.addBoard(m.quiet.mfps, i)); err != nil {
			return fmt.Errorf("event %d: %w", truths[i].Event, err)
		}
	}
	return nil
}

// judge has the filter look at an event, and counts.
func (m *measurer) judge(t *frontend.Truth, i int) error {
	begun := time.Now()
	m.finder.Begin()
	for k := range m.noisy.mfps {
		board, err := velo.ParseBoard(m.noisy.mfps[k].Fragment(i))
		if err == nil {
			err = m.finder.Add(board)
		}
		if err != nil {
			return fmt.Errorf("event %d: %w", t.Event, err)
		}
	}
	m.r.steps[0] += time.Since(begun)
	var times [vertex.Steps]time.Duration
	found := m.finder.Find(&times)
	v := m.finder.Verdict(&found)
	took := time.Since(begun)
	for i := range times {
		m.r.steps[i+1] += times[i]
	}
	m.r.times = append(m.r.times, took)
	m.r.addEvent(t, m.decays(t), &found, v.Decision == filter.Accepted)
	return nil
}

// decay is the decay of a B meson in the truth.
type decay struct {
	vertex         frontend.Vertex
	flight         float64 // along the beam, mm
	visible, clean bool
}

// decays are what the truth says of B mesons.
func (m *measurer) decays(t *frontend.Truth) []decay {
	m.list = m.list[:0]
	for i, v := range t.Vertices {
		if v.Origin == frontend.Beauty {
			m.list = append(m.list, decay{
				vertex:  v,
				flight:  v.Z - t.Vertices[0].Z,
				visible: visible.accepts(t, i),
				clean:   clean.accepts(t, i),
			})
		}
	}
	return m.list
}

// accepts tells whether a filter could see the decay at a vertex.
func (s *visibility) accepts(t *frontend.Truth, vertex int) bool {
	from, collision := &t.Vertices[vertex], &t.Vertices[0]
	n := 0
	for k := range t.Tracks {
		tr := &t.Tracks[k]
		if tr.Vertex == vertex && tr.Forward && tr.RHits >= s.hits && tr.PhiHits >= s.hits && tr.P >= s.p &&
			impact(tr, from, collision) >= s.impact {
			n++
		}
	}
	return n >= tracksSeen && from.Z-collision.Z >= s.flight
}

// impact is how far a track from a vertex passes the collision by, in mm.
func impact(t *frontend.Track, from, collision *frontend.Vertex) float64 {
	dx, dy, dz := from.X-collision.X, from.Y-collision.Y, from.Z-collision.Z
	norm := math.Sqrt(1 + t.TX*t.TX + t.TY*t.TY)
	along := (dx*t.TX + dy*t.TY + dz) / norm
	return math.Sqrt(max(0, dx*dx+dy*dy+dz*dz-along*along))
}
