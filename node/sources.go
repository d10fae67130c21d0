package node

import (
	"context"
	"slices"
	"time"

	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/source"
	"ringlet/source/live"
)

// How long a node that is paused or goes on waits for the answers of its front-ends, and how often it looks.
const (
	frontendAnswerTimeout = 2 * time.Second
	frontendPollInterval  = 10 * time.Millisecond
)

// liveSources are the live sources of the session's readout unit in its last run; nil if there are none.
func (s *session) liveSources() *source.Live {
	for _, c := range s.components {
		if ru, ok := c.(*readout); ok {
			return ru.live.Load()
		}
	}
	return nil
}

// wantSources says where the control wants the live sources of a run.
func (n *process) wantSources(c *nodev1.SourceCommand) {
	s, req := n.sessionAndRequest()
	if s == nil || c.GetRun() != req.GetRun() {
		return
	}
	if sources := s.liveSources(); sources != nil {
		sources.Want(live.Command(c.GetCommand()), source.Group(c.GetGroup()))
	}
}

// pause has front-ends that follow the run pause.
func (n *process) pause(ctx context.Context) error {
	n.moveSources(ctx, live.Pause, source.AllSources)
	return nil
}

// resume has front-ends that follow the run go on. The control tells those that start last.
func (n *process) resume(ctx context.Context) error {
	n.moveSources(ctx, live.Begin, source.NotStartingLast)
	return nil
}

// moveSources says where the run wants the live sources, and waits a short time until their front-ends are there. The
// run does not depend on them: what they send meanwhile is kept.
func (n *process) moveSources(ctx context.Context, c live.Command, of source.Group) {
	s, _ := n.sessionAndRequest()
	if s == nil || s.liveSources() == nil {
		return
	}
	sources := s.liveSources()
	sources.Want(c, of)
	late := func(x source.SourceLife) bool { return x.Follows && !x.Arrived && !x.Untaken && x.Failed == "" }
	until := time.Now().Add(max(frontendAnswerTimeout, n.cfg.MinTimeout))
	for ; ctx.Err() == nil; time.Sleep(frontendPollInterval) {
		i := slices.IndexFunc(sources.Lives(), late)
		if i < 0 {
			return
		}
		if time.Now().After(until) {
			n.log.Warn("a front-end does not answer", "source", sources.Lives()[i].SourceID, "command", c)
			return
		}
	}
}

// sourceLives is how far live sources are, for a report.
func sourceLives(l *source.Live) (out []*nodev1.SourceLife) {
	if l == nil {
		return nil
	}
	for _, x := range l.Lives() {
		out = append(out, &nodev1.SourceLife{
			Source:   uint32(x.SourceID),
			Wanted:   nodev1.FrontendCommand(x.Wanted),
			Attached: x.Attached,
			Follows:  x.Follows,
			Arrived:  x.Arrived,
			Failed:   x.Failed,
			Untaken:  x.Untaken,
		})
	}
	return out
}

// historyMessage tells when fragments of a source were missing: up to the last bin that has an event.
func historyMessage(s *source.LiveStats) *nodev1.SourceHistory {
	m := &nodev1.SourceHistory{Source: uint32(s.SourceID), BinMs: uint64(s.History.Width.Milliseconds())}
	events, missing := make([]uint64, 0, live.HistoryBins), make([]uint64, 0, live.HistoryBins)
	for _, b := range s.History.Bins {
		events, missing = append(events, b.Events), append(missing, b.Missing)
		if b.Events > 0 {
			m.Events, m.Missing = events, missing
		}
	}
	return m
}
