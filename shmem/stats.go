package shmem

// refusal numbers the reasons for which Grant refuses, each with its counter.
type refusal uint8

const (
	notRefused refusal = iota
	refusedSegment
	refusedPeer
	refusedAccess
	refusedRange
	refusedPage
	refusedFull
	refusedOverlap

	refusalKinds
)

var refusalInfo = [refusalKinds]struct {
	name string
	err  error
}{
	refusedSegment: {"unknown segment", errUnknownSegment},
	refusedPeer:    {"any peer", errBadPeer},
	refusedAccess:  {"bad access", errBadAccess},
	refusedRange:   {"out of segment", errOutOfSegment},
	refusedPage:    {"page denied", errPageDenied},
	refusedFull:    {"no free window", ErrTableFull},
	refusedOverlap: {"overlap", ErrOverlap},
}

// TableStats is a reading of a Table's counters. Free + Live + Revoking = Windows at any time.
type TableStats struct {
	Windows  int `kind:"level" help:"windows of the export table"`
	Free     int `kind:"level" help:"windows without a grant"`
	Live     int `kind:"level" help:"windows that a peer may write to"`
	Revoking int `kind:"level" help:"windows closed, waiting for the last writer"`

	Granted            uint64            `help:"grants given to peers"`
	Revoked            uint64            `help:"grants of peers ended"`
	Refused            map[string]uint64 `count:"refused." help:"grants refused, by reason"`    // every reason is present
	Violations         map[string]uint64 `count:"violations." help:"writes refused, by reason"` // every Violation is present
	UnbalancedReleases uint64            `count:"unbalanced" help:"releases without an acquire: a fault of the program"`
}

// Stats reads the counters, under the table's mutex.
func (t *Table) Stats() TableStats {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := TableStats{
		Windows:            len(t.windows),
		Free:               t.freeCount,
		Granted:            t.granted,
		Revoked:            t.revoked,
		Refused:            make(map[string]uint64, refusalKinds-1),
		Violations:         make(map[string]uint64, violationKinds-1),
		UnbalancedReleases: t.unbalancedReleases.Load(),
	}
	s.Revoking = int(t.revokingWindows.Load())
	s.Live = s.Windows - s.Free - s.Revoking
	for k := notRefused + 1; k < refusalKinds; k++ {
		s.Refused[refusalInfo[k].name] = t.refusalsByReason[k]
	}
	for v := NoWindow; v < violationKinds; v++ {
		s.Violations[v.String()] = t.violations.load(v)
	}
	return s
}

// Violations returns how many writes were refused for the given reason.
func (t *Table) Violations(v Violation) uint64 { return t.violations.load(v) }
