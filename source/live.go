package source

// Pipeline of a live fragment:
//
//	1 receive (parallel: a goroutine for each feed)  feed's memory → stage of the source, many fragments at a time; the
//	                                                 matcher judges their numbers, under mu; the feed reuses its memory
//	2 step    (sequential: clock)                    decides what depends on time; tells the scheduler of new data
//	3 AddCuts (parallel: dispatcher)                 the scheduler says which events a MEP has
//	4 Next    (sequential: reader)                   stage → block, every byte written once; no lock while it is copied
//	5 SetOutcomesBelow (parallel: dispatcher; reported by 1)    MEPs have their outcome: the feed may acknowledge
//
// A fragment is copied twice, so that neither a feed's memory nor a MEP depends on the size of the other.

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"ringlet/event"
	"ringlet/source/live"
)

// LiveSettings are the settings that only live sources have.
type LiveSettings struct {
	FragmentTimeout time.Duration // how long an event waits for a fragment
	FlushAfter      time.Duration // how long an event waits for its MEP to fill up
	OnMissing       live.OnMissing
	MaxLeap         uint64 // numbers up to so far from the one before are near it; 0: the default
	SlotBytes       int    // bytes of a builder unit's slot; 0: not known yet
	Run             uint64 // number of the run
	// Hold: no fragment is taken before the first Want of Begin
	Hold    bool
	Configs map[string]string // content of the files that sources' options name, by name
	Busy    BusySettings
	Log     *slog.Logger
}

// firstTimeoutFactor is how many times FragmentTimeout events wait for the first fragment of a source: people start
// front-ends one after the other.
const firstTimeoutFactor = 30

// liveAlignLog2 is the log2 of the alignment, in bytes, of the data of live fragments.
const liveAlignLog2 = 2

// Live gives the data that front-ends send while the run goes on. The scheduler decides which events a MEP has:
// BeginIntake must come before Next, and AddCuts may come at any time.
type Live struct {
	// immutable after openLive
	cfg Settings
	share
	intakes          []*intake
	maxFragmentBytes int // bytes of fragments in a block
	maxBlock         int // bytes of a block
	ctx              context.Context
	cancel           context.CancelFunc
	wg               sync.WaitGroup
	start            time.Time
	clockWake        chan struct{} // wakes the clock

	// owned by the goroutine that calls Next
	fragments []live.FragmentRef // of the block that Next makes, source by source
	mep       uint64

	counters counters // atomic

	busy         *busySender
	retainedGate live.FillGate // of the readout unit's buffers; owned by whoever calls NoteRetained

	mu            sync.Mutex // guards what follows
	changed       *sync.Cond
	begun         bool
	onHold        bool // until the run begins
	intakeEnding  bool // no more fragments are taken from the feeds
	closed        bool
	failure       error // why the first source to fail cannot go on
	remainingCuts int   // how many more cuts Next gives after the input has ended
	inputEnded    bool  // a source failed that the run cannot do without
	matcher       *live.Matcher
	cutsLeft      int  // cuts that Next has not given
	firstCutReady bool // the events of the first of them are decided
	cutsOver      bool
	unsafeCutEnds []uint64 // ends of the cuts that Next gave and whose MEPs have no outcome yet
	outcomesBelow uint64   // MEPs below have their outcome
	safeBelow     uint64   // all events below have their outcome
	lastReach     live.Reach

	// when warnDisjoint last looked for sources that share no number, and when to look again
	disjointCheckedAt, disjointRecheckAt time.Duration
	reportReach                          func(live.Reach)
}

// openLive opens the feeds of this readout unit's share of the inputs.
func openLive(ctx context.Context, s Settings) (Source, error) {
	inputs, err := ParseInputs(s.Input)
	if err != nil {
		return nil, err
	}
	if s.Division, err = divide(len(inputs), s.RUs, s.Division, "the input"); err != nil {
		return nil, err
	}
	if err := checkShape(s.RU, s.Division, s.Packing); err != nil {
		return nil, err
	}
	if s.Live.Log == nil {
		s.Live.Log = slog.New(slog.DiscardHandler)
	}
	each, err := sourceBytes(&s, inputs)
	if err != nil {
		return nil, err
	}
	l := &Live{
		cfg:       s,
		share:     newShare(s.Division, s.RU),
		start:     time.Now(),
		clockWake: make(chan struct{}, 1),
		onHold:    s.Live.Hold,
	}
	l.maxBlock = blockBytes(&s, inputs, each)[s.RU]
	if l.busy, err = newBusySender(&s, l.sourceCount); err != nil {
		return nil, err
	}
	for i := range l.sourceCount {
		l.maxFragmentBytes += each[l.firstSource+i]
	}
	l.changed = sync.NewCond(&l.mu)
	l.ctx, l.cancel = context.WithCancel(context.Background())
	window := matchWindow(s.Packing)
	names, unordered, err := l.open(ctx, inputs, each, window)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	l.matcher = live.NewMatcher(live.Rules{
		FragmentTimeout:      s.Live.FragmentTimeout,
		FirstFragmentTimeout: firstTimeoutFactor * s.Live.FragmentTimeout,
		FlushAfter:           s.Live.FlushAfter,
		OnMissing:            s.Live.OnMissing,
		Packing:              s.Packing,
		Window:               window,
		MaxMEPBytes:          l.maxFragmentBytes,
		AlignLog2:            liveAlignLog2,
		MaxLeap:              s.Live.MaxLeap,
	}, names, unordered)
	for i := range l.sourceCount {
		l.matcher.SetWrap(i, inputs[l.firstSource+i].Options.Wrap)
	}
	l.fragments = make([]live.FragmentRef, l.sourceCount*s.Packing)
	return l, nil
}

// open opens the feed of each source of this unit, with room of each[id] bytes for its fragments. It returns the names
// of the sources, and which of them may have fragments out of order, for the matcher.
func (l *Live) open(ctx context.Context, inputs []Input, each []int,
	window int) (names []string, unordered []bool, err error) {
	for i := range l.sourceCount {
		id := l.firstSource + i
		in := inputs[id]
		feed, err := in.Kind.Feed(ctx, live.FeedSettings{
			Address:   in.Address,
			SourceID:  uint16(id),
			Name:      in.Name,
			Run:       l.cfg.Live.Run,
			AlignLog2: liveAlignLog2,
			Log:       l.cfg.Live.Log,

			SourceName:  in.Options.Name,
			Config:      l.cfg.Live.Configs[in.Options.Config],
			MaxFragment: in.MaxFragment,
			WrapBits:    in.Options.eventBits(),
			OnBusy: func(busy bool) {
				l.busy.note(live.BusyInput{Cause: live.BusyFrontend, Source: i, Holds: busy}, l.firstSource)
			},
		})
		if err != nil {
			return nil, nil, err
		}
		if to, ok := feed.(live.BusyListener); ok {
			l.busy.addListener(to)
		}
		names, unordered = append(names, in.Name), append(unordered, in.Kind.Unordered)
		l.intakes = append(l.intakes, &intake{
			live:  l,
			index: i,
			name:  in.Name,
			feed:  feed,

			options: in.Options,

			stage: newStage(stageBytes(&in, each[id]), window),

			maxFragment: in.MaxFragment,

			arrivals: newArrivals(),
		})
	}
	return names, unordered, nil
}

// MaxBlock is the size of the largest block, in bytes.
func (l *Live) MaxBlock() int { return l.maxBlock }

// Stats returns the counters so far.
func (l *Live) Stats() Stats { return l.counters.stats() }

// Failure returns why the first source to fail cannot go on; nil if all sources can.
func (l *Live) Failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failure
}

// BeginIntake starts to receive. One goroutine calls report whenever the data have come further; report must not wait.
func (l *Live) BeginIntake(report func(live.Reach)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.begun || l.closed {
		return
	}
	l.begun, l.reportReach = true, report
	for _, in := range l.intakes {
		l.wg.Go(in.receiveFragments)
	}
	l.wg.Go(l.runClock)
	l.wg.Go(func() { l.busy.send(l.ctx) })
}

func (l *Live) beginAtMEP(_ context.Context, mep uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mep, l.outcomesBelow = mep, mep
	l.matcher.SkipFirstTimeout()
	return nil
}

// AddCuts adds the cuts that say which events further MEPs have; over says that no MEP comes after them.
func (l *Live) AddCuts(cuts []live.Cut, over bool) {
	if len(cuts) == 0 && !over {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range cuts {
		l.matcher.AddCut(c, l.now())
	}
	l.cutsLeft, l.cutsOver = l.cutsLeft+len(cuts), over
	l.changed.Broadcast()
	l.wakeClock()
}

// EndIntake ends the taking of fragments from feeds, since the run ends. Fragments taken before are still built, and a
// fragment that their events lack is missing at once. Feeds go on reporting what is safe to front-ends until Close.
// EndIntake may be called again, and does not wait.
func (l *Live) EndIntake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.intakeEnding {
		return
	}
	l.intakeEnding = true
	l.busy.note(live.BusyInput{Over: true}, l.firstSource)
	for _, in := range l.intakes {
		if in.waiting {
			in.cancelNext()
		}
	}
	l.changed.Broadcast() // goroutines that wait for room give up
}

// SetOutcomesBelow notes that all MEPs below this one have their outcome.
func (l *Live) SetOutcomesBelow(mep uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := int(min(mep-min(mep, l.outcomesBelow), uint64(len(l.unsafeCutEnds))))
	if n == 0 {
		return
	}
	l.safeBelow = l.unsafeCutEnds[n-1]
	l.outcomesBelow += uint64(n)
	l.unsafeCutEnds = l.unsafeCutEnds[:copy(l.unsafeCutEnds, l.unsafeCutEnds[n:])]
	l.changed.Broadcast() // wakes reportUntilClosed of feeds that are over
	l.wakeClock()
}

// Next waits for the events of the next MEP and writes their fragments to dst. A *live.EndError says that the input
// ends because a source failed.
func (l *Live) Next(ctx context.Context, dst []byte, b *Block) error {
	if len(dst) < l.MaxBlock() {
		return &bufferTooSmallError{Have: len(dst), Need: l.MaxBlock()}
	}
	c, err := l.awaitCut(ctx)
	if err != nil {
		return err
	}
	*b = Block{
		MEP:        l.mep,
		FirstEvent: c.First,
		Events:     int(c.Events),
		MFPs:       b.MFPs[:0],
	}
	for i, in := range l.intakes {
		size := l.writeMFP(dst[b.Size:], in, c, l.fragments[i*int(c.Events):][:c.Events])
		b.listMFP(dst, uint16(l.firstSource+i), size, l.cfg.CRC)
	}
	l.mep++
	l.counters.countBlock(b)
	l.releaseCut(c.End())
	return nil
}

// awaitCut waits for the next cut, and until all its events are decided, and notes its fragments.
func (l *Live) awaitCut(ctx context.Context) (live.Cut, error) {
	stop := context.AfterFunc(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.changed.Broadcast()
	})
	defer stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		switch {
		case l.closed:
			return live.Cut{}, io.EOF
		case ctx.Err() != nil:
			return live.Cut{}, ctx.Err()
		case l.inputEnded && l.remainingCuts == 0:
			return live.Cut{}, &live.EndError{Err: l.failure}
		case l.cutsLeft == 0 && l.cutsOver:
			return live.Cut{}, io.EOF
		}
		c, ready, err := l.matcher.TakeCut(l.fragments)
		if _, missing := err.(*live.MissingError); missing && l.inputEnded { //nolint:errorlint // the matcher's own
			err = l.failure // the missing fragments follow from it
		}
		switch {
		case err != nil:
			return c, &live.EndError{Err: err}
		case ready:
			return c, nil
		}
		l.changed.Wait()
	}
}

func paddedBytes(size int) int { return (size + 1<<liveAlignLog2 - 1) &^ (1<<liveAlignLog2 - 1) }

// writeMFP writes the MFP of a source to dst and returns its size in bytes.
func (l *Live) writeMFP(dst []byte, in *intake, c live.Cut, pieces []live.FragmentRef) int {
	n := len(pieces)
	worded := in.hasWords(pieces)
	wide := worded ||
		slices.ContainsFunc(pieces, func(p live.FragmentRef) bool { return p.Size > event.MaxNarrowFragment })
	at, tables, width := event.MFPHeaderSize(n), event.MFPTables, 2
	if wide {
		at, tables, width = event.WideMFPHeaderSize(n), event.WideMFPTables, 4
	}
	if worded {
		at = event.WordedMFPHeaderSize(n)
		in.putWords(dst, pieces)
	}
	types, sizes := tables(dst, n)
	clear(types[n:])
	clear(sizes[width*n:])
	for j, p := range pieces {
		types[j] = byte(p.Type)
		if wide {
			binary.LittleEndian.PutUint32(sizes[4*j:], p.Size)
		} else {
			binary.LittleEndian.PutUint16(sizes[2*j:], uint16(p.Size))
		}
		if p.Event != live.NoEvent {
			end := at + copy(dst[at:], in.stage.bytes(p.Ref))
			at += paddedBytes(int(p.Size))
			clear(dst[end:at])
		}
	}
	event.PutMFPHeader(dst, event.MFPHeader{
		NumFragments: n,
		Size:         uint32(at),
		FirstEvent:   c.First,
		Source:       uint16(l.firstSource + in.index),
		Align:        liveAlignLog2,
		Wide:         wide,
		Worded:       worded,
	})
	return at
}

// releaseCut releases the fragments of the cut that ends before event end.
func (l *Live) releaseCut(end uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.matcher.FinishCut(l.now())
	l.firstCutReady, l.cutsLeft, l.remainingCuts = false, l.cutsLeft-1, max(0, l.remainingCuts-1)
	l.unsafeCutEnds = append(l.unsafeCutEnds, end)
	l.releaseDropped()
	l.wakeClock()
}

func (l *Live) now() time.Duration { return time.Since(l.start) }

func (l *Live) wakeClock() {
	select {
	case l.clockWake <- struct{}{}:
	default:
	}
}

// Close ends the goroutines and closes the feeds.
func (l *Live) Close() error {
	l.mu.Lock()
	begun, again := l.begun, l.closed
	l.closed = true
	l.busy.note(live.BusyInput{Over: true}, l.firstSource)
	l.changed.Broadcast()
	l.mu.Unlock()
	l.cancel()
	l.wg.Wait()
	if again {
		return nil
	}
	var errs []error
	for _, in := range l.intakes {
		if !begun {
			in.closeErr = in.feed.Close()
		}
		errs = append(errs, in.closeErr)
	}
	return errors.Join(errs...)
}
