package tagnet

import (
	"errors"
	"fmt"
	"time"

	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
)

// ownerInput is one thing for the owner to do: a call, or a message of a stream.
type ownerInput struct {
	call                func()
	stream              *stream
	update              Update
	reach               *Reach // nil: not told
	returnedTags        []Tag
	confirmedExclusions []uint64                // exclusions
	feedback            *tagnetv1.FeedbackBatch // nil for an update

	returnedFirst, confirmedFirst uint64 // sequence numbers of the first of each
}

// post gives the owner an input. It returns false if the owner has gone, or the stream the input is from, as closed
// tells; nil for an input that is from none.
func (s *Server) post(over <-chan struct{}, in ownerInput) bool {
	select {
	case s.inbox <- in:
		return true
	case <-over:
	case <-s.quit:
	}
	return false
}

// runAsOwner runs fn where it may touch the owner's fields, and waits for it. It works after Close, too.
func (s *Server) runAsOwner(fn func()) {
	ran := make(chan struct{})
	if s.post(nil, ownerInput{call: func() { fn(); close(ran) }}) {
		select {
		case <-ran:
			return
		case <-s.stopped:
		}
	} else {
		<-s.stopped
	}
	select {
	case <-ran: // the owner's last act
		return
	default:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	fn()
}

// maxInputsPerTurn bounds how long tokens wait for inputs that have come in meanwhile.
const maxInputsPerTurn = 64

// ownerLoop is the owner goroutine: apply all that waits, then issue once.
func (s *Server) ownerLoop() {
	defer close(s.stopped)
	for {
		select {
		case in := <-s.inbox:
			s.apply(in)
		case <-s.quit:
			return
		}
	more:
		for range maxInputsPerTurn {
			select {
			case in := <-s.inbox:
				s.apply(in)
			default:
				break more
			}
		}
		s.issueAndPublish()
	}
}

func (s *Server) apply(in ownerInput) {
	switch {
	case in.call != nil:
		in.call()
	case in.feedback != nil:
		s.applyFeedback(in.stream, in.feedback)
	default:
		s.applyUpdate(in.stream, &in)
	}
}

// issueAndPublish issues what can be issued, stamps it and publishes it.
func (s *Server) issueAndPublish() {
	s.core.cutMEPs()
	s.batch.Reset(s.core.NextCycle(), s.core.PlacesPerCycle())
	if !s.firstCycleWaits() && !s.core.worthBatching() && s.core.Issue(&s.batch) > 0 {
		now := s.now()
		for i := range s.batch.Len() {
			for bu := range s.batch.PlacesPerCycle {
				if t, ok := s.batch.Token(i, bu); ok {
					*s.issuedAt(bu, t.Slot) = now
				}
			}
		}
		if s.timing.firstTokenAt == 0 {
			s.timing.firstTokenAt = now
		}
	}
	state := s.core.State()
	s.tokenLog.setAbsences(s.core.absencesSoFar()) // before the cycles that they concern
	s.timestampAbsences()
	if s.tokenLog.publish(&s.batch, s.core.releasedMark(), state, s.core.noCycleAwaited()) {
		for _, st := range s.streams[Readout] {
			if st != nil {
				notify(st.wake)
			}
		}
	}
	s.publishCuts()
	s.publishTags()
	for _, st := range s.streams[Builder] {
		if st != nil && (state == Drained || state == Draining && state != s.reportedState || s.shouldAck(st)) {
			st.unacked, st.ackRequested = 0, false
			notify(st.wake)
		}
	}
	if state != s.reportedState {
		s.reportedState = state
		s.notices.addState(state)
	}
	if state == Drained && !isClosed(s.drained) {
		close(s.drained)
	}
}

// publishTags sends tags to the first readout unit, and tells all of exclusions.
func (s *Server) publishTags() {
	s.launchedTags = s.core.LaunchTags(s.launchedTags[:0])
	withdrawn := s.core.Withdrawals()
	exclusions := len(withdrawn) + len(s.core.absencesSoFar())
	returned := s.sessions[Readout][len(s.cfg.Core.RUs)-1].returnedTags
	if len(s.launchedTags) == 0 && exclusions == s.exclusionsPublished && returned == s.returnedPublished {
		return
	}
	s.returnedPublished = returned
	s.tokenLog.publishTags(s.launchedTags, withdrawn, returned)
	for unit, st := range s.streams[Readout] {
		if st != nil && (unit == 0 || exclusions > s.exclusionsPublished) {
			notify(st.wake)
		}
	}
	if exclusions > s.exclusionsPublished {
		for _, st := range s.streams[Builder] {
			if st != nil {
				notify(st.wake)
			}
		}
	}
	s.exclusionsPublished = exclusions
}

// publishCuts tells the readout units which events further MEPs have.
func (s *Server) publishCuts() {
	if !s.tokenLog.updateCuts(s.core.cutter, s.core.released) {
		return
	}
	for _, st := range s.streams[Readout] {
		if st != nil {
			notify(st.wake)
		}
	}
}

// maxFirstCycleWait is how long the first cycle waits to be full. When the units have attached their sources have just
// begun, and a cycle with what the fastest have read would take as long as a full one: 7 % of a run of 14 cycles (8
// nodes, 2026-11-21).
const maxFirstCycleWait = 100 * time.Millisecond

// firstCycleWaits tells that the first cycle is not full yet, and may still become so.
func (s *Server) firstCycleWaits() bool {
	if !s.core.firstCycleIncomplete() {
		return false
	}
	if s.firstCycleIncompleteAt == 0 {
		s.firstCycleIncompleteAt = s.now()
		time.AfterFunc(maxFirstCycleWait, func() { s.post(nil, ownerInput{call: func() {}}) })
	}
	return s.now()-s.firstCycleIncompleteAt < maxFirstCycleWait.Nanoseconds()
}

// shouldAck tells that a builder unit should hear what became of its entries: they are many, or the last for now, or
// it asks. Where there is room for many MEPs, an acknowledgement for every message would be as many messages
// again.
func (s *Server) shouldAck(st *stream) bool {
	few := batchStep(s.core.maxInFlight()) / max(1, s.core.activeBUs)
	return st.ackRequested || st.unacked > 0 && (st.unacked >= few || s.core.bus[st.unit].usedSlots.Now == 0)
}

// now is never 0, which stands for "not yet".
func (s *Server) now() int64 { return max(1, time.Since(s.began).Nanoseconds()) }

func (s *Server) applyUpdate(st *stream, in *ownerInput) {
	if s.streams[Readout][st.unit] != st {
		return // cut or gone meanwhile; its watermark is of no use any more
	}
	err := s.core.ApplyUpdate(st.unit, in.update)
	if err == nil && in.reach != nil {
		err = s.core.applyReach(st.unit, *in.reach)
	}
	if errors.Is(err, EndMismatch) { // the update stands, and so do the tags that came with it; run control decides
		s.notices.addIncident(&UnitError{
			Role:     Readout,
			Unit:     st.name,
			Incident: UnitMisbehaved,
			Err:      err,
		})
		err = nil
	}
	if err == nil {
		err = s.applyOnce(st, in)
	}
	if err != nil {
		s.cutMisbehaving(st, RefusedInput, in.update.ReadBelow, "", err)
	}
}

// applyOnce applies what a readout unit says once, and repeats when its stream broke.
func (s *Server) applyOnce(st *stream, in *ownerInput) error {
	t := &s.sessions[Readout][st.unit]
	tags, ok := countRepeated(t.returnedTags, in.returnedFirst, len(in.returnedTags))
	exclusions, fits := countRepeated(t.confirmedExclusions, in.confirmedFirst, len(in.confirmedExclusions))
	if !ok || !fits {
		return fmt.Errorf("%s left out tags before number %d or confirmed exclusions before number %d: %d and %d have come",
			st.name, in.returnedFirst, in.confirmedFirst, t.returnedTags, t.confirmedExclusions)
	}
	s.core.counters.EntriesRepeated += uint64(tags + exclusions)
	for i := range in.returnedTags[tags:] {
		if err := s.core.ReturnTag(st.unit, &in.returnedTags[tags+i]); err != nil {
			return err
		}
		t.returnedTags++
	}
	for _, exclusion := range in.confirmedExclusions[exclusions:] {
		if err := s.core.ConfirmExclusion(st.unit, exclusion); err != nil {
			return err
		}
		t.confirmedExclusions++
	}
	return nil
}

// applyFeedback applies a batch whose lists have been checked to fit together.
func (s *Server) applyFeedback(st *stream, m *tagnetv1.FeedbackBatch) {
	if s.streams[Builder][st.unit] != st {
		return // cut or gone meanwhile; the unit's MEPs are or will be given to others
	}
	applied := st.appliedEntries.Load() // written by this goroutine alone
	skip, ok := countRepeated(applied, m.GetFirst(), len(m.GetMeps()))
	if !ok {
		s.cutMisbehaving(st, RefusedMessage, m.GetFirst(), applied,
			fmt.Errorf("%s left out entries of feedback: number %d came after %d of them",
				st.name, m.GetFirst(), applied))
		return
	}
	s.core.counters.EntriesRepeated += uint64(skip)
	now := s.now()
	var run latencyRun
	for i := skip; i < len(m.GetMeps()); i++ {
		f := Feedback{
			MEP:     m.Meps[i],
			Slot:    m.Slots[i] & slotMask,
			Attempt: uint8(m.Slots[i] >> attemptShift),
			Events:  elementAt(m.Events, i),
			Outcome: Outcome(elementAt(m.Outcomes, i)),
		}
		err := s.core.ApplyFeedback(st.unit, f)
		if err == nil || errors.Is(err, WrongEvents) {
			s.recordCompletion(st.unit, f, now-int64(elementAt(m.HeldUs, i))*1000, &run)
		}
		if err != nil {
			s.authorizer.warn("feedback", "the scheduler refused an outcome, or took it with a remark", "why", err)
		}
	}
	s.recordLatency(run)
	if err := s.core.ackAbsences(st.unit, m.GetAbsent()); err != nil {
		s.cutMisbehaving(st, RefusedInput, m.GetAbsent(), "", err)
		return
	}
	st.unacked += len(m.GetMeps())
	st.ackRequested = st.ackRequested || len(m.GetMeps()) == 0 && m.GetAbsent() == 0
	st.appliedEntries.Add(uint64(len(m.GetMeps()) - skip))
}

// latencyRun counts MEPs in a row that took equally long, as those built together mostly do, so that they are one entry
// of the histogram.
type latencyRun struct{ us, count int64 }

// issuedAt is where it stands when the token for a slot was issued. A slot has one token at a time.
func (s *Server) issuedAt(bu int, slot uint32) *int64 {
	return &s.issueTimes[bu*s.cfg.Core.Slots+int(slot)]
}

// recordCompletion records when a MEP was complete, in ns. A reissued MEP counts from its last token.
func (s *Server) recordCompletion(bu int, f Feedback, at int64, run *latencyRun) {
	s.timing.lastMEPAt = max(s.timing.lastMEPAt, at)
	if f.Outcome != Built {
		return
	}
	us := (at - *s.issuedAt(bu, f.Slot)) / 1000
	if us < 0 || us > maxLatencyUs {
		s.timing.clippedLatencies++
		us = max(0, min(us, maxLatencyUs))
	}
	if us != run.us {
		s.recordLatency(*run)
		*run = latencyRun{us: us}
	}
	run.count++
}

func (s *Server) recordLatency(run latencyRun) {
	if run.count > 0 {
		_ = s.timing.latency.RecordValues(run.us, run.count) // it fits, being clipped
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
