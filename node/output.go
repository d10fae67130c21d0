package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"ringlet/builderunit"
	"ringlet/builderunit/recording"
	"ringlet/builderunit/sink"
	"ringlet/filter/external"
	"ringlet/node/config"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/shmem"
)

// OutputDir is the directory to which builder units write files of an output that stands alone (config.Outputs): it, or
// one beside it that is merged into it.
func OutputDir(cfg config.Config) string {
	if cfg.SingleFile() {
		return cfg.Output + recording.SegmentsSuffix
	}
	return strings.TrimSuffix(cfg.Output, "/")
}

// bufferName is the name of a builder unit's shared-memory output: its prefix is one by which shmem.Sweep finds those
// of the dead.
func bufferName(cfg config.Config, bu int) string {
	name, _, _ := sink.ParseBufferName(cfg.Output) // Complete has looked
	return "ringlet-" + name + "-" + strconv.Itoa(bu)
}

// lendingOutputs are the outputs whose readers get MEPs where they lie. Where windows are pre-granted a slot stays
// where the readout units know it, so those are copied; and of outputs that all get a MEP one alone can have it lent.
// What a filter judges is copied for it.
func (s *session) lendingOutputs() (which []bool, n int) {
	outputs, all := s.cfg.Outputs(), s.cfg.Route().ToAll
	which = make([]bool, len(outputs))
	for i := range outputs {
		if s.layout == nil && s.cfg.Filter == "" && outputs[i].SinkKind().Shared && (n == 0 || !all) {
			which[i] = true
			n++
		}
	}
	return which, n
}

// spareBlocks is how many MEPs readers of the outputs may hold where they lie.
func (s *session) spareBlocks() int {
	_, n := s.lendingOutputs()
	return n * config.BufferMEPs
}

// makeSlots makes the slots of the builder unit, and room for the MEPs that readers of the output hold.
func (s *session) makeSlots(suffix string) error {
	var opts []shmem.Option
	if n := s.spareBlocks(); n > 0 {
		opts = append(opts, shmem.WithSpare(n, sink.LendMargin))
	}
	slots, err := shmem.CreateSlots(s.segmentPrefix+suffix, s.cfg.Slots, int(s.cfg.SlotSize), opts...)
	if err == nil {
		s.slots = slots
	}
	return err
}

// renewSlots makes the slots anew where readers of the last run's output may still look at MEPs in them: these keep the
// memory, the name goes. The caller holds lifecycleMu.
func (s *session) renewSlots() error {
	if n := s.spareBlocks(); n == 0 || s.slots.SpareBlocks() == n {
		return nil
	}
	if err := s.slots.Close(); err != nil { // first: there may not be room for both
		return err
	}
	s.slotsRemade++
	return s.makeSlots(fmt.Sprintf("-slots-%d", s.slotsRemade))
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
	s.sink, s.outputClosed = out, writing
	s.mu.Unlock()
	s.node.mu.Lock()
	s.node.outputClosed, s.node.outputRun = writing, req.GetRun()
	s.node.mu.Unlock()
	return out, nil
}

// openSink opens what the builder unit writes to.
func (s *session) openSink(run uint32, key recording.Key) (sink.Sink, error) {
	settings, err := s.sinkSettings(run, key)
	if err != nil {
		return nil, err
	}
	outputs := s.cfg.Outputs()
	lends, _ := s.lendingOutputs()
	var sinks []sink.Sink
	var dirs []string
	for i := range outputs {
		if len(outputs) > 1 {
			settings.RunInfo.Stream = &recording.Stream{Number: i, Count: len(outputs), Rule: s.cfg.OutputBy}
		}
		of := settings
		if i == 0 && s.cfg.DiskBacklog > 0 {
			of.MaxBacklogBytes, of.Log = int64(s.cfg.DiskBacklog), s.node.log
			of.Segments.MaxSegmentBytes = int64(s.cfg.BacklogSegment())
		}
		out, err := s.openStream(&outputs[i], of, lends[i])
		if err != nil {
			for _, opened := range sinks {
				err = errors.Join(err, opened.Abort())
			}
			return nil, err
		}
		if sinks = append(sinks, out); outputs[i].SinkKind().Files {
			dirs = append(dirs, OutputDir(outputs[i]))
		}
	}
	if dirs != nil {
		s.node.recovery.start(dirs, run, s.node.log)
	}
	out := sinks[0]
	if len(sinks) > 1 {
		out = sink.NewStreams(s.cfg.Route(), sinks)
	}
	return s.withFilter(out, &settings)
}

// withFilter puts the filter before the output, where there is one: processes of others, or as many filters as there
// are processors, which the units of the node use only for as long as events wait.
func (s *session) withFilter(out sink.Sink, settings *sink.Settings) (sink.Sink, error) {
	choice, ok := s.cfg.FilterChoice()
	if !ok {
		return out, nil
	}
	cfg := sink.FilterConfig{
		EventDeadline: choice.Deadline,
		MaxMEPBytes:   int(s.cfg.SlotSize),
		OnDecision:    s.reportFiltered,
		Log:           s.node.log,
	}
	if s.cfg.RegionJudged() {
		cfg.MaxRegions = s.cfg.Slots
	}
	if name := choice.ProcessName(); name != "" {
		cfg.External = external.New(external.Config{
			Name:       name,
			Builder:    settings.Segments.Builder,
			Run:        settings.Segments.Run,
			Deadline:   choice.Deadline,
			MaxMEPSize: int(s.cfg.SlotSize),
			Log:        s.node.log,
		})
		return sink.NewFilterSink(out, cfg), nil
	}
	described, err := config.LoadFilterDescription(choice)
	if err == nil {
		cfg.Filters, err = choice.OpenFilters(runtime.GOMAXPROCS(0), described)
	}
	if err != nil {
		return nil, errors.Join(err, out.Abort())
	}
	return sink.NewFilterSink(out, cfg), nil
}

// checkDetector looks, before a run, whether this node's builder unit can read the detector of its filter, and whether
// it is the one that the run control has read.
func (s *session) checkDetector() error {
	choice, ok := s.cfg.FilterChoice()
	if !ok || s.slots == nil {
		return nil
	}
	_, err := config.LoadFilterDescription(choice)
	return err
}

// openStream opens one output, which is said in cfg.
func (s *session) openStream(cfg *config.Config, settings sink.Settings, lends bool) (sink.Sink, error) {
	kind := cfg.SinkKind()
	settings.Output, settings.BufferBytes = cfg.Output, config.BufferMEPs*int(s.cfg.SlotSize)
	switch {
	case kind.Files:
		settings.Output = OutputDir(*cfg)
	case kind.Shared:
		_, settings.SharesEntries, _ = sink.ParseBufferName(cfg.Output) // Complete has looked
		settings.Output = bufferName(*cfg, settings.Segments.Builder)
	}
	if lends {
		settings.LendSlots, settings.MaxLent, settings.BufferBytes = s.slots, config.BufferMEPs, sink.LendCapacity
	}
	return kind.Open(settings)
}

// sinkSettings are those that the outputs have in common.
func (s *session) sinkSettings(run uint32, key recording.Key) (sink.Settings, error) {
	durability, err := recording.ParseDurability(s.cfg.Durability)
	if err != nil {
		return sink.Settings{}, err
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return sink.Settings{
		Segments: sink.SegmentsConfig{
			Run:             run,
			Key:             key,
			Builder:         int(s.self.GetBuIndex()),
			Node:            s.node.cfg.Name,
			Host:            host,
			Program:         s.node.cfg.Version,
			MaxSegmentBytes: int64(s.cfg.SegmentSize),
			MaxSegmentAge:   s.cfg.SegmentTime,
			Durability:      durability,
		},
		RunInfo: recording.RunInfo{
			Run:               run,
			Key:               key,
			Packing:           s.cfg.Packing,
			Live:              s.cfg.HasLiveSources(),
			Program:           s.node.cfg.Version,
			Configuration:     string(s.cfg.Effective()),
			ConfigurationHash: s.cfg.Hash(),
		},
		Overwrite: s.cfg.Overwrite,
	}, nil
}

// innerSinks are the outputs of a builder unit, one or several.
func innerSinks(out sink.Sink) []sink.Sink {
	if f, ok := out.(*sink.FilterSink); ok {
		out = f.OutputSink()
	}
	if several, ok := out.(*sink.Streams); ok {
		return several.Sinks()
	}
	return []sink.Sink{out}
}

// awaitsDurability says whether the scheduler is to hear of a MEP only when it is safe. With a filter it is when the
// event has its decision and the output has it: the filter's own memory is lost with the process.
func (s *session) awaitsDurability() bool {
	return s.cfg.Filter != "" || s.cfg.WritesFiles() && s.cfg.Durability != config.DurabilityMemory
}

// liftBacklogLimit lets what is built be written, even if a backlog is full: the second filter may not come before the
// run's end.
func (s *session) liftBacklogLimit() {
	s.mu.Lock()
	out := s.sink
	s.mu.Unlock()
	if out == nil {
		return
	}
	for _, one := range innerSinks(out) {
		if b, ok := one.(*sink.Backlog); ok {
			b.LiftBound()
		}
	}
}

// supersedeTimeout bounds how long the marks of MEPs that do not count wait for a reader that does not read.
const supersedeTimeout = 5 * time.Second

// supersedeHandler tells the readers of every shared-memory output what does not count; nil: there is none.
func (s *session) supersedeHandler(out sink.Sink) func([]builderunit.MEPResult) {
	var to []*sink.Buffer
	for _, one := range innerSinks(out) {
		if b, ok := one.(*sink.Buffer); ok {
			to = append(to, b)
		}
	}
	if to == nil {
		return nil
	}
	return func(results []builderunit.MEPResult) {
		for _, b := range to {
			s.markSuperseded(b, results)
		}
	}
}

// markSuperseded tells the readers of a shared-memory output that MEPs do not count, since the scheduler did not take
// their outcome. Where there are several, those of others are told, too, and have nothing to drop.
func (s *session) markSuperseded(to *sink.Buffer, results []builderunit.MEPResult) {
	ctx, cancel := context.WithTimeout(context.Background(), supersedeTimeout)
	defer cancel()
	for i := range results {
		r := &results[i]
		if r.Outcome != builderunit.Built {
			continue
		}
		err := to.Supersede(ctx, sink.Meta{
			Run:        s.runNumber(),
			MEP:        r.MEP,
			FirstEvent: r.FirstEvent,
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
	return s.node.runNumber
}
