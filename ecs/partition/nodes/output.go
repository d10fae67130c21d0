package nodes

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"ringlet/ecs/partition/fault"
	"ringlet/node"
	"ringlet/node/config"
	"ringlet/recording"
)

// Output is what the files of a run hold, as they were read back after the run.
type Output struct {
	Path              string            `json:"path"`      // as configured
	Directory         string            `json:"directory"` // of this run
	Hosts             []string          `json:"hosts"`     // with files of the run
	Segments          uint64            `json:"segments"`
	MEPs              uint64            `json:"meps"`                  // each once
	Events            uint64            `json:"events"`                // each once
	Bytes             uint64            `json:"bytes"`                 // of all segments
	Copies            uint64            `json:"copies"`                // MEPs that are there more than once
	SlowValues        uint64            `json:"slow_values,omitempty"` // values of slow data beside the events
	MissingEvents     []recording.Range `json:"missing"`
	MissingMoreRanges uint64            `json:"missing_more,omitempty"` // ranges beyond those
	Recovered         []string          `json:"recovered,omitempty"`    // segments that killed processes had left open
	Problems          []string          `json:"problems,omitempty"`
	UnreadNodes       []string          `json:"unread,omitempty"` // nodes that may have files that were not read
	Merged            *recording.Merged `json:"merged,omitempty"`

	streamMerged bool // a single file was made of one of several outputs
}

// maxMissingRanges is how many ranges of missing events a report lists.
const maxMissingRanges = 100

// closeOutput reads the files back and fills them into the report, before the accounts are closed. It returns nil if
// the run writes no files.
func (r *outputs) closeOutput(out *Report, locate func(context.Context) []outputAnswer) *readBackOutput {
	if !r.cfg.WritesFiles() || r.View() == nil || r.key == (recording.Key{}) {
		return nil
	}
	rec := r.readBack(context.Background(), locate, r.wantedOutputs())
	out.EventsFromFiles = out.EventsFromFiles || r.lost
	out.fillOutput(&r.cfg, rec)
	return rec
}

// fillOutput fills in the output that was read back.
func (r *Report) fillOutput(cfg *config.Completed, rec *readBackOutput) {
	o := &Output{
		Path:        cfg.Output,
		Directory:   recording.RunDir(node.OutputDir(*cfg), cfg.RunNumber),
		MEPs:        rec.mepSet.MEPs(),
		Events:      rec.mepSet.Events(),
		Copies:      rec.copies,
		Recovered:   rec.recovered,
		Problems:    rec.problems,
		UnreadNodes: rec.unreadNodes,
	}
	for _, d := range rec.directories {
		o.Hosts = append(o.Hosts, d.host)
		o.SlowValues += d.slowValues
		for _, b := range d.builders {
			o.Segments += b.GetSegments()
			o.Bytes += b.GetBytes()
		}
	}
	r.EventsFromFiles = r.EventsFromFiles || r.EventsTriggered == 0 && o.Events > 0
	r.fillStreams(rec)
	meps, events := r.handedOutCounts()
	if r.EventsFromFiles {
		r.reconcileFigures(o.MEPs+meps, o.Events+events, rec.mepSet.EndEvent())
	}
	if o.MissingEvents = []recording.Range{}; events == 0 { // else other programs have events that are not in the files
		gaps := rec.mepSet.Missing(r.EventsTriggered, maxMissingRanges)
		o.MissingEvents, o.MissingMoreRanges = gaps.Ranges, gaps.UnlistedRanges
	}
	r.Output, r.OutputEvents, r.RecordedOutput = cfg.Output, o.Events+events, o
}

// IsIncomplete says that not all files could be read. If the segments were merged, the single file replaces them and
// problems do not count.
func (o *Output) IsIncomplete() bool {
	return o != nil && o.Merged == nil && !o.streamMerged && len(o.Problems) > 0
}

// CloseWithoutNodes reads the output once more when all nodes have ended, if not all of it could be read: a node that
// hung had its files open, and now this process can read them.
func (r *Run) CloseWithoutNodes(out *Report) {
	r.faults.updateCore((*fault.Core).IgnoreFaults)
	out.Unmerged = false
	files := &outputs{Run: r}
	files.closeReport(out, files.closeOutput(out, func(ctx context.Context) []outputAnswer {
		return files.locateOutput(ctx, "", localReader{})
	}))
}

// reconcileFigures corrects the figures of a scheduler that was lost: the last ones that it reported lack what came
// later. The files of the output show more: they hold meps MEPs with that number of events, and all event numbers are
// below end. Triggered events that the files do not have count as abandoned.
func (r *Report) reconcileFigures(meps, events, end uint64) {
	if r.EventsBuilt < events {
		r.MEPsBuilt, r.EventsBuilt = meps, events
	}
	r.EventsTriggered = max(r.EventsTriggered, end)
	known := r.EventsBuilt + r.EventsDiscarded + r.EventsRejected + r.EventsAbandoned
	switch {
	case known < r.EventsTriggered:
		r.EventsAbandoned += r.EventsTriggered - known
	case known > r.EventsTriggered: // the files have events that counted as abandoned, and some that were triggered later
		found := min(r.EventsAbandoned, known-r.EventsTriggered)
		r.EventsAbandoned -= found
		r.EventsTriggered = known - found
	}
}

// closeAccounts closes the accounts with the output that was read back, for the first time or again.
func (r *Report) closeAccounts() {
	r.Accounts = slices.DeleteFunc(r.Accounts, func(c Check) bool {
		return c.Name == exactCheckName || c.Name == partialCheckName || strings.Contains(c.Name, streamCheckPrefix)
	})
	for i := range r.Accounts {
		if strings.HasPrefix(r.Accounts[i].Name, outcomesCheckPrefix) {
			r.Accounts[i] = r.outcomesCheck()
		}
	}
	if r.RecordedOutput != nil {
		exact := !r.GivenUp && !r.Degraded && r.EventsAbandoned == 0 && (len(r.Unreported) == 0 || r.OutputStreams == nil)
		r.Accounts = append(r.Accounts, outputChecks(r, exact)...)
		if !exact && r.handsOut() && !slices.Contains(r.NotChecked, handedOutNote) {
			r.NotChecked = append(r.NotChecked, handedOutNote)
		}
	}
	r.AccountingOK = (r.Cause == nil || !r.GivenUp) && !r.EndUnknown
	for _, ch := range r.Accounts {
		r.AccountingOK = r.AccountingOK && ch.OK
	}
	r.setVerdict()
}

// verdictFor is the verdict of the run for the manifest of a directory.
func (r *Report) verdictFor(d *runDirectory) recording.Verdict {
	v := recording.Verdict{
		Verdict:               r.VerdictName,
		Why:                   r.VerdictReason,
		Losses:                r.Losses,
		EndCause:              r.EndCause,
		EventsTriggered:       r.EventsTriggered,
		EventsBuilt:           r.EventsBuilt,
		EventsInDirectory:     d.mepSet.Events(),
		EventsOutput:          r.OutputEvents,
		MissingEvents:         r.RecordedOutput.MissingEvents,
		UnlistedMissingRanges: r.RecordedOutput.MissingMoreRanges,
		ConcludedAt:           time.Now(),
		UnitOutages:           r.UnitOutages,
	}
	if r.Cause != nil {
		v.Cause = r.Cause.Component + ": " + r.Cause.What
	}
	return v
}

// Names of the checks of files.
const (
	exactCheckName   = "events built = events in the output"
	partialCheckName = "events built, and of them in the output"
)

// handedOutNote is the note in NotChecked of a run that sends some MEPs to files and the others to other programs.
const handedOutNote = "events in the output: what units had handed to other programs that did not end in " +
	"good order is not known"

// outputChecks compare the scheduler's counts with the files. If MEPs were given up, or given to a second builder unit,
// the check is not exact: files may hold more than the scheduler learned in time, but never less.
func outputChecks(r *Report, exact bool) []Check {
	switch {
	case exact:
		return append([]Check{newCheck(exactCheckName, r.EventsBuilt, r.OutputEvents)}, r.streamChecks()...)
	case r.handsOut():
		return nil // a lost builder unit has taken its count of events for other programs with it
	}
	return []Check{newCheck(partialCheckName, r.EventsBuilt, min(r.EventsBuilt, r.OutputEvents))}
}

// mergeOutputs merges the segments of the run, for each output that is a single file.
func (r *outputs) mergeOutputs(out *Report, rec *readBackOutput) {
	switch {
	case rec == nil || out.OutputEvents == 0:
	case rec.streams == nil:
		if merged := r.mergeOutput(out, r.cfg, rec, out.RecordedOutput.Directory); merged != nil {
			out.RecordedOutput.Merged, out.OutputEvents = merged, merged.Events
		}
	default:
		for _, one := range rec.streams {
			s := out.streamOf(&one.cfg)
			if s.Merged = r.mergeOutput(out, one.cfg, one, s.Directory); s.Merged != nil {
				out.RecordedOutput.streamMerged = true
			}
		}
	}
}

// mergeOutput merges the segments in a directory into a single file, if this process can read all of them. If not, or
// if merging fails, the segments stay and the report says how to merge them later.
func (r *outputs) mergeOutput(out *Report, cfg config.Completed, rec *readBackOutput, dir string) *recording.Merged {
	if !cfg.SingleFile() || out.OutputEvents == 0 {
		return nil
	}
	failed := func(format string, args ...any) *recording.Merged {
		out.RecordedOutput.Problems = append(out.RecordedOutput.Problems,
			cfg.Output+" was not made"+fmt.Sprintf(format, args...))
		out.Unmerged = true
		return nil
	}
	later := fmt.Sprintf("the events are safe in %s; make the file later: ringlet merge %s %s", dir, dir, cfg.Output)
	if m, err := recording.Load(dir); err != nil || len(rec.directories) != 1 || m.ID != rec.directories[0].id {
		return failed(", since this process cannot read all segments: they are on %d hosts in %s; bring them into one "+
			"directory, then run ringlet merge", len(rec.directories), dir)
	}
	if len(rec.unreadWithMEPs) > 0 {
		return failed(", since segments of %s could not be read; %s, when they are there",
			strings.Join(rec.unreadWithMEPs, ", "), later)
	}
	merged, err := recording.Merge(context.Background(), dir, cfg.Output, recording.MergeOptions{
		Remove:    true,
		Overwrite: r.cfg.Overwrite,
	})
	if err != nil {
		return failed(": %v; %s", err, later)
	}
	return &merged
}
