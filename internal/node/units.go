package node

import (
	"errors"
	"path/filepath"

	"ringlet/builderunit/sink"
	"ringlet/internal/config"
	"ringlet/internal/pattern"
	"ringlet/readoutunit/source"
	"ringlet/shmem"
)

var errNotHere = errors.New("this node holds no such unit, or not now")

// generator describes this run's generated data; ru matters only to the readout unit.
func (s *session) generator(ru int) (source.GeneratorConfig, error) {
	model, err := pattern.ParseModel(s.cfg.FragmentModel)
	return source.GeneratorConfig{
		RU: ru, RUs: s.cfg.RUs, Streams: s.cfg.Streams, Packing: s.cfg.Packing, FragmentSize: s.cfg.FragmentSize, Model: model,
		Seed: s.cfg.Seed, Events: s.cfg.Events, CRC: s.cfg.Verify != config.VerifyOff,
	}, err
}

// pattern is the rule that generated data obeys; nil for an input.
func (s *session) pattern() (*pattern.Pattern, error) {
	if s.cfg.Input != "" {
		return nil, nil
	}
	g, err := s.generator(0)
	if err != nil {
		return nil, err
	}
	return g.Pattern()
}

// openSource opens what the readout unit reads.
func (s *session) openSource() (source.Source, error) {
	ru := int(s.me.GetRuIndex())
	var src source.Source
	if s.cfg.Input == "" {
		g, err := s.generator(ru)
		if err != nil {
			return nil, err
		}
		if src, err = source.NewGenerator(g); err != nil {
			return nil, err
		}
	} else {
		bad, err := source.ParseOnBadRecord(s.cfg.OnBadRecord)
		if err != nil {
			return nil, err
		}
		src, err = source.OpenReplay(source.ReplayConfig{
			Path: s.cfg.Input, RU: ru, RUs: s.cfg.RUs, Streams: s.cfg.Streams, Packing: s.cfg.Packing, Loop: s.cfg.Loop,
			OnBadRecord: bad, Events: s.cfg.Events, CRC: s.cfg.Verify != config.VerifyOff,
		})
		if err != nil {
			return nil, err
		}
	}
	return source.Paced(src, s.cfg.Rate, s.cfg.Packing), nil
}

// bufferRoom is how many MEPs a shared-memory output holds before the builder unit waits for its readers.
const bufferRoom = 4

// openSink opens what the builder unit writes to.
func (s *session) openSink() (sink.Sink, error) {
	bu := int(s.me.GetBuIndex())
	switch s.cfg.Format {
	case config.FormatDiscard:
		return &sink.Discard{}, nil
	case config.FormatBuffer:
		name := OutputName(s.cfg, bu)
		w, err := shmem.CreateWriter(name, bufferRoom*int(s.cfg.SlotSize), shmem.Broadcast)
		if err != nil {
			return nil, err
		}
		return sink.NewBuffer(w), nil
	}
	format, err := sink.ParseFormat(s.cfg.Format)
	if err != nil {
		return nil, err
	}
	return sink.NewFile(sink.FileConfig{Path: OutputName(s.cfg, bu), Format: format, Part: Parts(s.cfg)})
}

// Parts says whether each builder unit writes a part that must be merged into the run's output.
func Parts(cfg config.Config) bool { return cfg.SingleFile() && cfg.BUs > 1 }

// OutputName is where a builder unit's output goes: the output itself, its part of it, a file in the output directory, or a
// shared-memory buffer.
func OutputName(cfg config.Config, bu int) string {
	switch {
	case cfg.Format == config.FormatBuffer:
		return cfg.Output + "-" + itoa(bu)
	case Parts(cfg):
		return sink.PartPath(cfg.Output, bu)
	case cfg.SingleFile():
		return cfg.Output
	}
	return filepath.Join(cfg.Output, "bu"+itoa(bu)+"."+cfg.Format)
}
