package nodes

import (
	"fmt"
	"slices"
	"strconv"

	"ringlet/node"
	"ringlet/node/config"
	"ringlet/recording"
)

// OutputStream is one of several outputs of all builder units.
type OutputStream struct {
	Output string `json:"output"` // as configured, without its format
	Format string `json:"format"`
	// Given to it by the builder units, by their last reports; bytes are those of MEPs.
	DeliveredMEPs   uint64 `json:"given_meps" sum:"bu.output_stream_meps."`
	DeliveredEvents uint64 `json:"given_events" sum:"bu.output_stream_events."`
	DeliveredBytes  uint64 `json:"given_bytes" sum:"bu.output_stream_bytes."`
	// Found when its files were read back.
	Directory     string            `json:"directory,omitempty"` // of this run
	FoundSegments uint64            `json:"segments,omitempty"`
	FoundMEPs     uint64            `json:"meps,omitempty"`   // each once
	FoundEvents   uint64            `json:"events,omitempty"` // each once
	FoundBytes    uint64            `json:"bytes,omitempty"`  // of all segments
	Copies        uint64            `json:"copies,omitempty"` // MEPs that are there more than once
	Merged        *recording.Merged `json:"merged,omitempty"`
}

// isFiles says whether the stream goes to files, which are read back after the run.
func (s *OutputStream) isFiles() bool {
	return config.OutputSettings{Format: s.Format}.SinkKind().Files
}

// fillDeliveredStreams fills in the builder units' counts for each of several outputs.
func (r *Report) fillDeliveredStreams(cfg *config.Completed, sums map[string]uint64) {
	outputs := cfg.Outputs()
	if len(outputs) == 1 {
		return
	}
	r.OutputBy = cfg.OutputBy
	for i, one := range outputs {
		s := OutputStream{Output: one.Output, Format: one.Format}
		readCounters(&s, sums, strconv.Itoa(i))
		r.OutputStreams = append(r.OutputStreams, s)
	}
}

// fillStreams fills in the files that were found for each of several outputs.
func (r *Report) fillStreams(rec *readBackOutput) {
	for _, one := range rec.streams {
		s := r.streamOf(&one.cfg)
		s.Directory = recording.RunDir(node.OutputDir(one.cfg), one.cfg.RunNumber)
		s.FoundMEPs, s.FoundEvents, s.Copies = one.mepSet.MEPs(), one.mepSet.Events(), one.copies
		s.FoundSegments, s.FoundBytes = 0, 0
		for _, d := range one.directories {
			for _, b := range d.builders {
				s.FoundSegments += b.GetSegments()
				s.FoundBytes += b.GetBytes()
			}
		}
	}
}

// streamOf finds the stream of an output by its format and path.
func (r *Report) streamOf(cfg *config.Completed) *OutputStream {
	i := slices.IndexFunc(r.OutputStreams, func(s OutputStream) bool {
		return s.Format == cfg.Format &&
			s.Output == cfg.Output
	})
	if i < 0 { // the record was written by another version
		r.OutputStreams = append(r.OutputStreams, OutputStream{Output: cfg.Output, Format: cfg.Format})
		i = len(r.OutputStreams) - 1
	}
	return &r.OutputStreams[i]
}

// sendsAllToAll says whether every stream gets every MEP.
func (r *Report) sendsAllToAll() bool {
	return config.OutputSettings{OutputBy: r.OutputBy}.Route().ToAll
}

// handsOut says whether some MEPs go to other programs and to no file.
func (r *Report) handsOut() bool {
	return !r.sendsAllToAll() && slices.ContainsFunc(r.OutputStreams, func(s OutputStream) bool { return !s.isFiles() })
}

// handedOutCounts are the MEPs and events that went to other programs and to no file.
func (r *Report) handedOutCounts() (meps, events uint64) {
	if !r.handsOut() {
		return 0, 0
	}
	for i := range r.OutputStreams {
		if s := &r.OutputStreams[i]; !s.isFiles() {
			meps, events = meps+s.DeliveredMEPs, events+s.DeliveredEvents
		}
	}
	return meps, events
}

// streamCheckPrefix is in the names of all checks of one of several outputs.
const streamCheckPrefix = "output stream "

// streamChecks compare the files of each of several outputs with the builder units' counts, and, if every stream gets
// every MEP, these counts with the scheduler's. They hold if no MEP was built twice.
func (r *Report) streamChecks() (list []Check) {
	for i := range r.OutputStreams {
		s := &r.OutputStreams[i]
		name := fmt.Sprintf(streamCheckPrefix+"%d", i)
		if s.isFiles() {
			list = append(list, newCheck("events given to "+name+" = found in its files", s.DeliveredEvents, s.FoundEvents))
		}
		if r.sendsAllToAll() {
			list = append(list, newCheck("events built = given to "+name, r.EventsBuilt, s.DeliveredEvents))
		}
	}
	return list
}
