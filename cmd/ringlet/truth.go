package main

import (
	"sync"

	"ringlet/node/config"
	"ringlet/readoutunit/source/frontend"
	"ringlet/trigger/display"
)

// truths know what happened at the events of a run whose data a simulated detector makes: an event is a function of the
// seed and its number. Blocks that are prepared come again under other numbers, so nothing is said of those.
type truths struct {
	now func() (run uint32, configuration string)

	mu    sync.Mutex // guards what follows
	text  string     // the configuration that maker is of
	maker *frontend.Maker
	bytes []byte
}

// of is what happened at an event.
func (t *truths) of(run uint32, ev uint64) (display.Truth, bool) {
	now, text := t.now()
	if run == 0 || run != now {
		return display.Truth{}, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if text != t.text {
		t.text, t.maker = text, makerOf(text)
	}
	if t.maker == nil {
		return display.Truth{}, false
	}
	if t.bytes == nil {
		t.bytes = make([]byte, t.maker.MaxMFP(0, 1))
	}
	if _, _, err := t.maker.FillMFP(t.bytes, 0, ev, 1, false); err != nil {
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

// makerOf makes the events of a configuration again; nil where they are not simulated, or come again.
func makerOf(text string) *frontend.Maker {
	cfg, err := config.Recorded("the configuration of the run", []byte(text))
	if err != nil || !cfg.Simulated() || cfg.Prepared > 0 {
		return nil
	}
	d, err := frontend.New(frontend.Default())
	if err != nil {
		return nil
	}
	maker, err := frontend.NewMaker(d, frontend.MakerConfig{Seed: cfg.Seed, Streams: 1, Truth: true})
	if err != nil {
		return nil
	}
	return maker
}
