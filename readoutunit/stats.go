package readoutunit

import (
	"time"

	"ringlet/source"
)

// Stats of a Unit.
type Stats struct {
	Source            source.Stats `count:""`
	MFPsRead          uint64       `count:"mfps_read" help:"MFPs taken from the source"`
	TokensReceived    uint64       `count:"tokens" help:"tokens that came"`
	PartsWritten      uint64       `count:"writes" help:"parts of MEPs that builder units have in place"`
	BytesWritten      uint64       `unit:"bytes" help:"bytes of writes confirmed by builder units"`
	UnrequestedTokens uint64       `count:"unasked" help:"tokens whose part the builder unit never asked for (--roi)"`
	RefusedGrants     uint64       `count:"refused" help:"grants that made no sense"`
	BadRecords        uint64       `count:"bad_input" kind:"level" help:"1: the input ended with a bad record"`
	Broken            int          `count:"sources_broken" kind:"level" help:"live sources that cannot go on"`
	InputFailed       uint64       `count:"let_down" kind:"level" help:"1: the input ended since a live source broke, or lacks what the run needs"`
	PhasesPassed      uint64       `count:"phases" help:"phases gone through"`
	DummyPhases       uint64       `count:"dummies" help:"phases with nothing to write"`
	PassedOver        uint64       `count:"passed_over" help:"times that a phase went on without its builder unit, which stood still"`
	PhaseOverruns     uint64       `count:"overruns" help:"phases that took longer than phase-end allows"`
	BypassedTags      uint64       `count:"bypassed" help:"tags passed on unserved since the unit was busy; they come round again"`
	RetainedBlocks    int          `count:"retained" kind:"level" help:"blocks held now"`
	RetainedBytesHigh int          `count:"retained_bytes_high" unit:"bytes" kind:"max" help:"bytes of the most retention buffers that were ever in use"`
	OpenTransfers     int          `count:"open" kind:"level" help:"transfers without an outcome; 0 after a run"`
	OrphanedWrites    int          `count:"left_writes" help:"writes under way to builder units that are excluded"`
	BuildersLost      int          `help:"builder units to which the link is down"`
	TimesLinkFull     uint64       `count:"links_full" help:"times that the link to a builder unit was full"`
	RelocatedWrites   uint64       `count:"writes_moved" help:"writes whose bytes were copied, since their builder unit held them up"`
	WithdrawalStats
	RejectionStats
	source.BusyStats
	Live           map[string]source.LiveStats `count:"input_"` // by source id
	BytesByBU      []uint64                    // BytesWritten by builder unit
	GrantWait      time.Duration               `count:"grant_us" help:"time waiting for grants"`
	TokenWait      time.Duration               `count:"token_us" help:"time with nothing to serve, waiting for tokens"`
	SourceTime     time.Duration               `count:"source_us" help:"time the reader was in its source"`
	BufferWait     time.Duration               `count:"room_us" help:"time the reader waited until something it holds was released"`
	ConductingTime time.Duration               `count:"conducting_us" help:"time from the first phase to the last"`
	BarrierStats                               // a copy
}
