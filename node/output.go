package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"ringlet/builderunit"
	"ringlet/builderunit/sink"
	"ringlet/filter"
	"ringlet/filter/external"
	"ringlet/node/config"
	"ringlet/recording"
	"ringlet/shmem"
	"ringlet/tagnet/core"
)

// OutputDir is the directory in which builder units write the files of one output (config.Outputs): the output itself,
// or a directory beside it whose files are merged into it.
func OutputDir(cfg config.Completed) string {
	if cfg.SingleFile() {
		return cfg.Output + recording.SegmentsSuffix
	}
	return strings.TrimSuffix(cfg.Output, "/")
}

// bufferName is the name of a builder unit's shared-memory output. By its prefix shmem.Sweep finds the outputs of dead
// processes.
func bufferName(cfg config.Completed, bu int) string {
	name, _, _ := sink.ParseBufferName(cfg.Output) // Complete has checked it
	return "ringlet-" + name + "-" + strconv.Itoa(bu)
}

// output is the builder unit's output as a component. It starts before all others and stops after them, so that their
// last messages do not wait for a disk.
type output struct {
	*base
	bu    int
	slots *shmem.Slots // of the builder unit; some may be lent to readers
	// onFiltered is called with a filter's verdict on n events of a MEP, from place i on; nil: ignored.
	onFiltered func(m sink.Meta, i, n int, v filter.Verdict, took time.Duration)

	remade int // how often the slots were made again; owned by start

	finishing sync.Mutex // held while the sink is finished

	mu     sync.Mutex // guards the fields below
	writes *runOutput // of the last run; nil before the first
	result sink.Result
}

// runOutput is the output of one run. The process keeps the last one, even without a session.
type runOutput struct {
	sink   sink.Sink
	run    uint32
	closed chan struct{} // closed when no more is written

	over sync.Once // finishes or aborts it once
}

// newOutput makes the slots of a builder unit, all free.
func newOutput(b *base, bu int) (*output, error) {
	o := &output{base: b, bu: bu}
	return o, o.makeSlots("-slots")
}

// makeSlots makes the slots of the builder unit, and space for the MEPs that readers of the output hold.
func (o *output) makeSlots(suffix string) (err error) {
	var opts []shmem.Option
	if _, n := o.lendingOutputs(); n > 0 {
		opts = append(opts, shmem.WithSpare(n*config.BufferMEPs, sink.LendMargin))
	}
	o.slots, err = shmem.CreateSlots(o.segmentPrefix+suffix, o.cfg.Slots, int(o.cfg.SlotSize), opts...)
	return err
}

// renewSlots makes new slots if readers of the last run's output may still look at MEPs in the old ones: the readers
// keep the memory, only its name goes.
func (o *output) renewSlots() error {
	if _, n := o.lendingOutputs(); n == 0 || o.slots.SpareBlocks() == n*config.BufferMEPs {
		return nil
	}
	if err := o.slots.Close(); err != nil { // first, since there may not be space for both
		return err
	}
	o.remade++
	return o.makeSlots(fmt.Sprintf("-slots-%d", o.remade))
}

// start opens the output of a run. Calls that read the run's files then wait until it is closed.
func (o *output) start(_ context.Context, run *runStart) error {
	if err := o.renewSlots(); err != nil {
		return err
	}
	var key recording.Key
	if n := copy(key[:], run.GetRunKey()); n != len(key) && o.cfg.WritesFiles() {
		return fmt.Errorf("run %d has a key of %d bytes, not %d", run.GetRun(), n, len(key))
	}
	out, err := o.openSinks(run.GetRun(), key)
	if err != nil {
		return err
	}
	w := &runOutput{sink: out, run: run.GetRun(), closed: make(chan struct{})}
	o.mu.Lock()
	o.writes, o.result = w, sink.Result{}
	o.mu.Unlock()
	o.node.lastOutput.Store(w)
	return nil
}

// current is the output of the last run; nil before the first.
func (o *output) current() sink.Sink {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.writes == nil {
		return nil
	}
	return o.writes.sink
}

// stop completes the output, unless it is closed already or given up.
func (o *output) stop(_ context.Context, giveUp bool) (err error) {
	if giveUp {
		return nil // free aborts it, and keeps its content
	}
	o.close(func(s sink.Sink) {
		var result sink.Result
		if result, err = s.Finish(); err != nil {
			err = errors.Join(err, s.Abort())
			return
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		o.result = result
	})
	return err
}

// close closes the output of the last run by how, once.
func (o *output) close(how func(sink.Sink)) {
	o.finishing.Lock()
	defer o.finishing.Unlock()
	o.mu.Lock()
	w := o.writes
	o.mu.Unlock()
	if w == nil {
		return
	}
	w.over.Do(func() {
		defer close(w.closed)
		how(w.sink)
	})
}

// free aborts an output that was not completed, keeping its content, and then removes the slots.
func (o *output) free() {
	o.close(func(s sink.Sink) {
		if err := s.Abort(); err != nil {
			o.node.log.Error("the output could not be closed; what is in it is recovered by the next run", "err", err)
		}
	})
	if err := o.slots.Close(); err != nil {
		o.node.log.Error("the slots could not be removed", "err", err)
	}
}

func (*output) attachment() attachment { return unattached }

func (*output) linkLost(int) {}

// progress is how many bytes the output has written so far; 0 if it does not count them.
func (o *output) progress() uint64 {
	if w, ok := o.current().(interface{ Written() uint64 }); ok {
		return w.Written()
	}
	return 0
}

// awaitClosed waits until the output of that run is closed. For any other run it returns at once.
func (w *runOutput) awaitClosed(ctx context.Context, run uint32) error {
	if w == nil || w.run != run {
		return nil
	}
	select {
	case <-w.closed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// openSinks opens the builder unit's outputs.
func (o *output) openSinks(run uint32, key recording.Key) (sink.Sink, error) {
	settings, err := o.sinkSettings(run, key)
	if err != nil {
		return nil, err
	}
	outputs := o.cfg.Outputs()
	lends, _ := o.lendingOutputs()
	var sinks []sink.Sink
	var dirs []string
	for i := range outputs {
		if len(outputs) > 1 {
			settings.Run.Stream = &recording.Stream{Number: i, Count: len(outputs), Rule: o.cfg.OutputBy}
		}
		of := settings
		if i == 0 && o.cfg.DiskBacklog > 0 {
			of.MaxBacklogBytes, of.Log = int64(o.cfg.DiskBacklog), o.node.log
			of.Segments.MaxSegmentBytes = int64(o.cfg.BacklogSegment())
		}
		out, err := o.openStream(&outputs[i], of, lends[i])
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
		o.node.recovery.start(dirs, run, o.node.log)
	}
	out := sinks[0]
	if len(sinks) > 1 {
		out = sink.NewStreams(o.cfg.Route(), sinks)
	}
	return o.withFilter(out, &settings)
}

// withFilter puts the configured filter, if any, before the output: external processes, or one filter per processor,
// which are busy only while events wait.
func (o *output) withFilter(out sink.Sink, settings *sink.Settings) (sink.Sink, error) {
	choice, ok := o.cfg.FilterChoice()
	if !ok {
		return out, nil
	}
	cfg := sink.FilterConfig{
		EventDeadline: choice.Deadline,
		MaxMEPBytes:   int(o.cfg.SlotSize),
		OnDecision:    o.onFiltered,
		Log:           o.node.log,
	}
	if o.cfg.RegionJudged() {
		cfg.MaxRegions = o.cfg.Slots
	}
	if name := choice.ProcessName(); name != "" {
		cfg.External = external.New(external.Config{
			Name:       name,
			Builder:    settings.Segments.Builder,
			Run:        settings.Segments.Run,
			Deadline:   choice.Deadline,
			MaxMEPSize: int(o.cfg.SlotSize),
			Log:        o.node.log,
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

// openStream opens one output, which cfg describes.
func (o *output) openStream(cfg *config.Completed, settings sink.Settings, lends bool) (sink.Sink, error) {
	kind := cfg.SinkKind()
	settings.Output, settings.BufferBytes = cfg.Output, config.BufferMEPs*int(o.cfg.SlotSize)
	switch {
	case kind.Files:
		settings.Output = OutputDir(*cfg)
	case kind.Shared:
		_, settings.SharesEntries, _ = sink.ParseBufferName(cfg.Output) // Complete has checked it
		settings.Output = bufferName(*cfg, settings.Segments.Builder)
	}
	if lends {
		settings.LendSlots, settings.MaxLent, settings.BufferBytes = o.slots, config.BufferMEPs, sink.LendCapacity
	}
	return kind.Open(settings)
}

// sinkSettings are the settings that all outputs share.
func (o *output) sinkSettings(run uint32, key recording.Key) (sink.Settings, error) {
	durability, err := recording.ParseDurability(o.cfg.Durability)
	if err != nil {
		return sink.Settings{}, err
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return sink.Settings{
		Segments: sink.SegmentsConfig{
			Builder:         o.bu,
			Node:            o.node.cfg.Name,
			Host:            host,
			Program:         o.node.cfg.Version,
			MaxSegmentBytes: int64(o.cfg.SegmentSize),
			MaxSegmentAge:   o.cfg.SegmentTime,
			Durability:      durability,
		},
		Run: recording.Manifest{
			Run:               run,
			Key:               key,
			Packing:           o.cfg.Packing,
			Live:              o.cfg.HasLiveSources(),
			Program:           o.node.cfg.Version,
			Configuration:     string(o.cfg.Effective()),
			ConfigurationHash: o.cfg.Hash(),
		},
		Overwrite: o.cfg.Overwrite,
	}, nil
}

// awaitsDurability tells whether the scheduler learns of a MEP only when it is safe. With a filter that is when each
// event has its decision and is in the output: the filter's own memory is lost with the process.
func (o *output) awaitsDurability() bool {
	return o.cfg.Filter != "" || o.cfg.WritesFiles() && o.cfg.Durability != config.DurabilityMemory
}

// innerSinks are the outputs of a builder unit, one or several, without the filter.
func innerSinks(out sink.Sink) []sink.Sink {
	if f, ok := out.(*sink.FilterSink); ok {
		out = f.OutputSink()
	}
	if several, ok := out.(*sink.Streams); ok {
		return several.Sinks()
	}
	return []sink.Sink{out}
}

// liftBacklogLimit lets built MEPs be written even if a backlog is full: the second filter may not empty it before the
// end of the run.
func (o *output) liftBacklogLimit() {
	for _, one := range innerSinks(o.current()) {
		if b, ok := one.(*sink.Backlog); ok {
			b.LiftBound()
		}
	}
}

// supersedeTimeout bounds how long the marks of superseded MEPs wait for a reader that does not read.
const supersedeTimeout = 5 * time.Second

// markSuperseded marks MEPs as superseded in every shared-memory output, since the scheduler did not accept their
// outcome. With several outputs, readers of an output without the MEP get the mark, too, and ignore it.
func (o *output) markSuperseded(results []builderunit.MEPResult) {
	for _, one := range innerSinks(o.current()) {
		to, ok := one.(*sink.Buffer)
		if !ok {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), supersedeTimeout)
		for i := range results {
			r := &results[i]
			if r.Outcome != core.Built {
				continue
			}
			err := to.Supersede(ctx, sink.Meta{
				Run:        o.node.run.Load(),
				MEP:        r.MEP,
				FirstEvent: r.FirstEvent,
				Events:     int(r.Events),
				Attempt:    uint32(r.Attempt),
			})
			if err != nil {
				o.node.log.Warn("readers of the output were not told of a MEP that does not count", "mep", r.MEP, "err", err)
			}
		}
		cancel()
	}
}

// report adds the counters of the output and of its filter.
func (o *output) report(f *figures) {
	o.mu.Lock()
	w, result := o.writes, o.result
	o.mu.Unlock()
	if w == nil {
		return
	}
	f.Output, f.Segments = &result, &sink.SegmentsStats{}
	if judge, ok := w.sink.(*sink.FilterSink); ok {
		f.Filter = new(judge.Stats())
		if p, ok := judge.External().(*external.Pool); ok {
			f.Panel = new(p.Stats())
		}
		waits, in := judge.Histograms()
		f.histogram(HistogramFilterWait, waits)
		f.histogram(HistogramFilter, in)
	}
	inner := w.sink
	if judge, ok := inner.(*sink.FilterSink); ok {
		inner = judge.OutputSink()
	}
	if several, ok := inner.(*sink.Streams); ok {
		f.Streams = new(several.Stats())
	}
	for _, one := range innerSinks(w.sink) {
		switch one := one.(type) {
		case *sink.Segments:
			f.Segments.Add(one.Stats())
		case *sink.Backlog:
			f.Segments.Add(one.Stats())
			f.Backlog = new(one.BacklogStats())
		case *sink.Buffer:
			f.Buffer = cmp.Or(f.Buffer, &sink.BufferStats{})
			f.Buffer.Add(one.Stats())
		case *sink.Datagrams:
			f.Datagrams = cmp.Or(f.Datagrams, &sink.DatagramStats{})
			f.Datagrams.Add(one.Stats())
		}
	}
}
