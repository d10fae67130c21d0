package efficiency

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"time"

	"ringlet/event"
	"ringlet/filter"
	"ringlet/velo"
	"ringlet/velo/frontend"
	"ringlet/velo/vertex"
)

// decayCuts are the conditions under which a filter could see a decay. minDecayTracks tracks of the
// decay must pass those of tracks.
type decayCuts struct {
	minHits     int     // of a track on R sensors, and as many on φ sensors
	minImpact   float64 // parameter of a track, mm
	minMomentum float64 // momentum of a track, GeV
	minFlight   float64 // from the collision to the decay along the beam, mm
}

var (
	// visibleCuts are those of the documents: "at least three hits", an impact parameter "greater than 100 µm" (L1-farm
	// §3.4), a decay "a few mm apart" (L1-farm §1.1).
	visibleCuts = decayCuts{minHits: 3, minImpact: 0.1, minFlight: 2}
	// cleanCuts exclude decays that look like scattering or chance to a filter that knows no momentum.
	cleanCuts = decayCuts{
		minHits:     6,
		minImpact:   0.3,
		minMomentum: 5,
		minFlight:   5,
	}
)

// minDecayTracks is how many tracks of a decay must pass the cuts.
const minDecayTracks = 2

// batchEvents is how many events are made before the filter judges them. Their fragments are then in the caches, as in
// a builder unit, and the clock is read seldom.
const batchEvents = 32

// Config of a measurement.
type Config struct {
	Version  string // of this program, for the report
	Command  string // that began it, likewise
	Events   uint64
	Seed     uint64
	Detector frontend.Config
}

// Measure simulates events, lets the filter judge them, and compares its results with the truth.
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
		Config:        cfg,
		Began:         time.Now(),
		NoisyData:     newData(),
		NoiselessData: newData(),
		times:         make([]time.Duration, 0, min(cfg.Events, 1<<20)),
	}
	runtime.LockOSThread() // processorTime reads the time of the present thread
	defer runtime.UnlockOSThread()
	tables, err := vertex.NewDetector(d.Geometry())
	if err != nil {
		return nil, err
	}
	m := measurer{finder: vertex.NewFinder(tables), r: r}
	for _, of := range []struct {
		events   *eventBatch
		detector *frontend.Detector
	}{{&m.noisyBatch, d}, {&m.quietBatch, silent}} {
		if err := of.events.setDetector(of.detector, cfg.Seed); err != nil {
			return nil, err
		}
	}
	for from := uint64(0); from < cfg.Events; from += batchEvents {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := m.batch(from, min(from+batchEvents, cfg.Events)); err != nil {
			return nil, err
		}
	}
	r.sortTimes()
	return r, nil
}

// eventBatch makes events of one detector, a batch at a time, and holds the last batch.
type eventBatch struct {
	maker       *frontend.Maker
	boards      int
	fragmentBuf []byte
	mfps        []event.MFP // of the batch, one of each board
}

// setDetector sets the detector and the seed.
func (e *eventBatch) setDetector(d *frontend.Detector, seed uint64) (err error) {
	e.boards = d.Geometry().Boards()
	e.fragmentBuf = make([]byte, e.boards*frontend.MaxMFP(batchEvents, 0))
	e.maker, err = frontend.NewMaker(d, frontend.MakerConfig{Seed: seed, Streams: e.boards, KeepTruth: true})
	return err
}

// makeBatch makes the events from from up to to.
func (e *eventBatch) makeBatch(from, to uint64) error {
	e.mfps = e.mfps[:0]
	free := e.fragmentBuf
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

// measurer is one measurement with its buffers.
type measurer struct {
	noisyBatch, quietBatch eventBatch
	finder                 *vertex.Finder
	r                      *Report
	decayBuf               []decay
}

// batch makes the events from from up to to, lets the filter judge them, and counts their content.
func (m *measurer) batch(from, to uint64) error {
	if err := m.noisyBatch.makeBatch(from, to); err != nil {
		return err
	}
	truths := m.noisyBatch.maker.Truths()
	used := processorTime()
	for i := range truths {
		if err := m.judge(&truths[i], i); err != nil {
			return err
		}
	}
	m.r.usedProcessorTime += processorTime() - used
	if err := m.quietBatch.makeBatch(from, to); err != nil {
		return err
	}
	for i := range truths {
		if err := errors.Join(m.r.NoisyData.addBoard(m.noisyBatch.mfps, i),
			m.r.NoiselessData.addBoard(m.quietBatch.mfps, i)); err != nil {
			return fmt.Errorf("event %d: %w", truths[i].Event, err)
		}
	}
	return nil
}

// judge lets the filter judge event i of the batch, whose truth is t, and counts the result.
func (m *measurer) judge(t *frontend.Truth, i int) error {
	begun := time.Now()
	m.finder.BeginEvent()
	for k := range m.noisyBatch.mfps {
		board, err := velo.ParseBoard(m.noisyBatch.mfps[k].Fragment(i))
		if err == nil {
			err = m.finder.AddBoard(board)
		}
		if err != nil {
			return fmt.Errorf("event %d: %w", t.Event, err)
		}
	}
	m.r.stepTimes[0] += time.Since(begun)
	var times [vertex.StepCount]time.Duration
	found := m.finder.Find(&times)
	v := m.finder.Verdict(&found)
	took := time.Since(begun)
	for i := range times {
		m.r.stepTimes[i+1] += times[i]
	}
	m.r.times = append(m.r.times, took)
	m.r.addEvent(t, m.findDecays(t), &found, v.Decision == filter.Accepted)
	return nil
}

// decay is the decay of a B meson in the truth.
type decay struct {
	vertex         frontend.Vertex
	flight         float64 // along the beam, mm
	visible, clean bool
}

// findDecays lists the decays of B mesons in the truth.
func (m *measurer) findDecays(t *frontend.Truth) []decay {
	m.decayBuf = m.decayBuf[:0]
	for i, v := range t.Vertices {
		if v.Origin == frontend.OriginBeauty {
			m.decayBuf = append(m.decayBuf, decay{
				vertex:  v,
				flight:  v.Z - t.Vertices[0].Z,
				visible: visibleCuts.accepts(t, i),
				clean:   cleanCuts.accepts(t, i),
			})
		}
	}
	return m.decayBuf
}

// accepts says whether the decay at a vertex passes the cuts.
func (s *decayCuts) accepts(t *frontend.Truth, vertex int) bool {
	from, collision := &t.Vertices[vertex], &t.Vertices[0]
	n := 0
	for k := range t.Tracks {
		tr := &t.Tracks[k]
		if tr.Vertex == vertex && tr.Forward && tr.RHits >= s.minHits && tr.PhiHits >= s.minHits && tr.P >= s.minMomentum &&
			impact(tr, from, collision) >= s.minImpact {
			n++
		}
	}
	return n >= minDecayTracks && from.Z-collision.Z >= s.minFlight
}

// impact is the impact parameter of a track from a vertex: its distance from the collision, in mm.
func impact(t *frontend.Track, from, collision *frontend.Vertex) float64 {
	dx, dy, dz := from.X-collision.X, from.Y-collision.Y, from.Z-collision.Z
	norm := math.Sqrt(1 + t.TX*t.TX + t.TY*t.TY)
	along := (dx*t.TX + dy*t.TY + dz) / norm
	return math.Sqrt(max(0, dx*dx+dy*dy+dz*dz-along*along))
}
