package main

import (
	"sync"

	"ringlet/node/config"
	"ringlet/velo"
	"ringlet/velo/detectorfile"
	"ringlet/velo/display"
	"ringlet/velo/frontend"
)

// eventTruths has what is needed to draw the events of the present run: the detector that its filter searches, and the
// true particles of an event. Only a simulated detector has true particles; the seed and the event number determine
// them. Prepared blocks are sent again under other event numbers, so their events have none.
type eventTruths struct {
	currentRun func() (run uint32, configuration string)

	mu          sync.Mutex     // guards what follows
	configText  string         // the configuration of what follows
	detector    *velo.Geometry // nil: the default one
	detectorErr error          // why the detector is not known
	maker       *frontend.Maker
	mfpBuffer   []byte
}

// configure sets detector and simulation by a configuration. The caller holds mu.
func (t *eventTruths) configure(text string) {
	if text == t.configText {
		return
	}
	t.configText, t.detector, t.detectorErr, t.maker = text, nil, nil, nil
	cfg, err := config.Restore("the configuration of the run", []byte(text))
	if err != nil {
		return
	}
	t.maker = makerOf(&cfg)
	choice, _ := cfg.FilterChoice()
	described, err := config.LoadFilterDescription(choice)
	t.detector, t.detectorErr = detectorfile.Geometry(described), err
}

// geometry is the detector of the present run.
func (t *eventTruths) geometry() (*velo.Geometry, error) {
	_, text := t.currentRun()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.configure(text)
	return t.detector, t.detectorErr
}

// truthOf returns the truth of an event; false if it is not known.
func (t *eventTruths) truthOf(run uint32, ev uint64) (display.Truth, bool) {
	now, text := t.currentRun()
	if run == 0 || run != now {
		return display.Truth{}, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.configure(text)
	if t.maker == nil {
		return display.Truth{}, false
	}
	if t.mfpBuffer == nil {
		t.mfpBuffer = make([]byte, t.maker.MaxMFP(0, 1))
	}
	if _, _, err := t.maker.FillMFP(t.mfpBuffer, 0, ev, 1, false); err != nil {
		return display.Truth{}, false
	}
	happened := t.maker.Truths()[0]
	out := display.Truth{Displaced: happened.Displaced}
	for _, v := range happened.Vertices {
		out.Vertices = append(out.Vertices, display.Point{
			Kind: string(v.Origin),
			X:    v.X,
			Y:    v.Y,
			Z:    v.Z,
		})
	}
	return out, true
}

// makerOf makes a generator of a configuration's events; nil if they are not simulated, or if blocks come again.
func makerOf(cfg *config.Completed) *frontend.Maker {
	if !cfg.SimulatesDetector() || cfg.Prepared > 0 {
		return nil
	}
	d, err := frontend.New(frontend.Default())
	if err != nil {
		return nil
	}
	maker, err := frontend.NewMaker(d, frontend.MakerConfig{Seed: cfg.Seed, Streams: 1, KeepTruth: true})
	if err != nil {
		return nil
	}
	return maker
}
