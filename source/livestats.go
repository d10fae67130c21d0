package source

import (
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"

	"ringlet/internal/plural"
	"ringlet/source/live"
)

// LiveStats are the counters and the state of one live source.
type LiveStats struct {
	Name     string
	SourceID uint16
	live.Stats
	live.Counts
	HasData   bool          // a fragment has come
	NewestAge time.Duration `count:"age_us" kind:"level" help:"time since the newest fragment came"`
	Failed    bool          // it cannot go on
	// Frontend is the name and place of the front-end that is attached, or was last; "" if none came, or the feed does
	// not know.
	Frontend string `count:"-"`
	// GivenName is how the front-end calls the source; "" if it does not say, or the input names the source.
	GivenName string `count:"-"`
	// Refusal is the reason of the latest message that the feed refused; "" if there is none, or the feed does not say.
	Refusal string `count:"-"`
	// LastFault is the latest reason why a fragment was thrown away for its number; "" if none was.
	LastFault string `count:"-"`
	// Disjoint says that this source and another one share no event number, and the ranges of both; "" while they share
	// some, or while it is too early to tell.
	Disjoint string `count:"-"`
	// Sizes are those of the fragments that have come, in bytes, and Intervals the times from one to the next, in µs; of
	// fragments that were read together their mean. Banks are how many banks the containers among them have. They have
	// one significant digit.
	Sizes     *hdr.Histogram `count:"-"`
	Intervals *hdr.Histogram `count:"-"`
	Banks     *hdr.Histogram `count:"-"`
	// History says when its fragments were missing.
	History live.History `count:"-"`
}

// SourceStats returns the counters and the state of each source, in order of source id.
func (l *Live) SourceStats() []LiveStats {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]LiveStats, len(l.intakes))
	for i, in := range l.intakes {
		out[i] = LiveStats{
			Name:      in.name,
			SourceID:  uint16(l.firstSource + i),
			Stats:     in.feed.Stats(),
			Counts:    l.matcher.Counts(i),
			HasData:   in.hasData,
			Failed:    in.failed,
			LastFault: in.lastFault,
		}
		copied := in.arrivals.clone()
		out[i].Sizes, out[i].Intervals, out[i].Banks = copied.sizes, copied.intervals, copied.banks
		out[i].History = l.matcher.History(i)
		if e, ok := in.feed.(live.Explainer); ok {
			out[i].Refusal = e.Explain()
		}
		if n, ok := in.feed.(live.FrontendNamer); ok {
			out[i].Frontend = n.Frontend()
		}
		if n, ok := in.feed.(live.SourceNamer); ok && in.options.Name == "" {
			out[i].GivenName = n.SourceName()
		}
		if j, apart, _ := l.matcher.FindDisjoint(i, l.now()); apart {
			out[i].Disjoint = l.describeDisjoint(i, j)
		}
		if in.hasData {
			out[i].NewestAge = l.now() - in.newestAt
		}
	}
	return out
}

// describeDisjoint returns a sentence on two sources that share no number. mu is held.
func (l *Live) describeDisjoint(i, j int) string {
	given := func(i int) plural.SourceRange {
		r := l.matcher.SourceRange(i)
		return plural.SourceRange{Source: l.intakes[i].name, First: r.First, Last: r.Last}
	}
	return plural.DisjointText(given(i), given(j))
}

// warnDisjoint warns once of each source that shares no number with another one, and returns when to look again. mu is
// held.
func (l *Live) warnDisjoint(now time.Duration) (again time.Duration) {
	const every = 250 * time.Millisecond // it compares each source with each other one
	if now < l.disjointCheckedAt+every && l.disjointCheckedAt > 0 {
		return l.disjointRecheckAt
	}
	again = live.Never
	defer func() { l.disjointCheckedAt, l.disjointRecheckAt = now, max(again, now+every) }()
	for i, in := range l.intakes {
		j, apart, later := l.matcher.FindDisjoint(i, now)
		again = min(again, later)
		if apart && !in.isDisjoint && !l.intakes[j].isDisjoint {
			l.cfg.Live.Log.Warn("sources share no event number: nothing that is built is whole", "source", in.name,
				"err", l.describeDisjoint(i, j))
			l.intakes[j].isDisjoint = true
		}
		in.isDisjoint = apart
	}
	return again
}
