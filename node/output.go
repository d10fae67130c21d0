package node

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"ringlet/builderunit"
	"ringlet/builderunit/recording"
	"ringlet/builderunit/sink"
	"ringlet/node/config"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/shmem"
)

// OutputDir is the directory to which builder units write files: the output, or one beside it that is merged into it.
func OutputDir(cfg config.Config) string {
	if cfg.SingleFile() {
		return cfg.Output + recording.SegmentsSuffix
	}
	return strings.TrimSuffix(cfg.Output, "/")
}

// bufferName is the name of a builder unit's shared-memory output: its prefix is one by which shmem.Sweep finds those
// of the dead.
func bufferName(cfg config.Config, bu int) string {
	return "ringlet-" + cfg.Output + "-" + strconv.Itoa(bu)
}

// lends says whether readers of the output get MEPs where they lie. Where windows stand for all MEPs a slot stays where
// the readout units know it, so those are copied.
func (s *session) lends() bool { return s.cfg.Sink().Shared && s.layout == nil }

// makeSlots makes the slots of the builder unit, and room for the MEPs that readers of the output hold.
func (s *session) makeSlots(suffix string) error {
	var opts []shmem.Option
	if s.lends() {
		opts = append(opts, shmem.WithSpare(config.BufferRoom, sink.LendMargin))
	}
	slots, err := shmem.CreateSlots(s.segments+suffix, s.cfg.Slots, int(s.cfg.SlotSize), opts...)
	if err == nil {
		s.slots = slots
	}
	return err
}

// freshSlots makes the slots anew where readers of the last run's output may still look at MEPs in them: these keep the
// memory, the name goes. The caller holds changing.
func (s *session) freshSlots() error {
	if !s.lends() || s.slots.Spare() == config.BufferRoom {
		return nil
	}
	if err := s.slots.Close(); err != nil { // first: there may not be room for both
		return err
	}
	s.remade++
	return s.makeSlots(fmt.Sprintf("-slots-%d", s.remade))
}

// openOutput opens the output of a run, and has whoever asks for it wait until it is closed.
func (s *session) openOutput(req *nodev1.CommandRequest) (sink.Sink, error) {
	var key recording.Key
	if n := copy(key[:], req.GetRunKey()); n != len(key) && s.cfg.WritesFiles() {
		return nil, fmt.Errorf("run %d has a key of %d bytes, not %d", req.GetRun(), n, len(key))
	}
	out, err := s.openSink(req.GetRun(), key)
	if err != nil {
		return nil, err
	}
	writing := make(chan struct{})
	s.mu.Lock()
	s.sink, s.writing = out, writing
	s.mu.Unlock()
	s.node.mu.Lock()
	s.node.writing, s.node.writingRun = writing, req.GetRun()
	s.node.mu.Unlock()
	return out, nil
}

// openSink opens what the builder unit writes to.
func (s *session) openSink(run uint32, key recording.Key) (sink.Sink, error) {
	durability, err := recording.ParseDurability(s.cfg.Durability)
	if err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	kind, builder := s.cfg.Sink(), int(s.me.GetBuIndex())
	output := s.cfg.Output
	switch {
	case kind.Files:
		output = OutputDir(s.cfg)
	case kind.Shared:
		output = bufferName(s.cfg, builder)
	}
	settings := sink.Settings{
		Segments: sink.SegmentsConfig{
			Run:          run,
			Key:          key,
			Builder:      builder,
			Node:         s.node.cfg.Name,
			Host:         host,
			Program:      s.node.cfg.Version,
			SegmentBytes: int64(s.cfg.SegmentSize),
			SegmentTime:  s.cfg.SegmentTime,
			Durability:   durability,
		},
		About: recording.About{
			Run:               run,
			Key:               key,
			Packing:           s.cfg.Packing,
			Live:              s.cfg.Live(),
			Program:           s.node.cfg.Version,
			Configuration:     string(s.cfg.Effective()),
			ConfigurationHash: s.cfg.Hash(),
		},
		Output:    output,
		Overwrite: s.cfg.Overwrite,
		Capacity:  config.BufferRoom * int(s.cfg.SlotSize),
	}
	if s.lends() {
		settings.Lend, settings.Capacity = s.slots, sink.LendCapacity
	}
	out, err := kind.Open(settings)
	if err == nil && kind.Files {
		s.node.earlier.begin(output, run, s.node.log)
	}
	return out, err
}

// lasting says whether the scheduler is to hear of a MEP only when it is safe.
func (s *session) lasting() bool {
	return s.cfg.WritesFiles() && s.cfg.Durability != config.DurabilityMemory
}

// supersededTime bounds how long the marks of MEPs that do not count wait for a reader that does not read.
const supersededTime = 5 * time.Second

// supersede tells the readers of a shared-memory output that MEPs do not count, since the scheduler did not take their
// outcome.
func (s *session) supersede(to *sink.Buffer, results []builderunit.Result) {
	ctx, cancel := context.WithTimeout(context.Background(), supersededTime)
	defer cancel()
	for i := range results {
		r := &results[i]
		if r.Outcome != builderunit.Built {
			continue
		}
		err := to.Supersede(ctx, sink.Meta{
			Run:        s.runNumber(),
			MEP:        r.MEP,
			FirstEvent: r.First,
			Events:     r.Events,
			Attempt:    r.Attempt,
		})
		if err != nil {
			s.node.log.Warn("readers of the output were not told of a MEP that does not count", "mep", r.MEP, "err", err)
		}
	}
}

// runNumber is that of the run this node is in.
func (s *session) runNumber() uint32 {
	s.node.mu.Lock()
	defer s.node.mu.Unlock()
	return s.node.run
}
