package builderunit

// Stats counts what an Assembler has done.
type Stats struct {
	Announcements        uint64 `count:"announced" help:"announcements taken: sizes that came"`
	RefusedAnnouncements uint64 `count:"announce_refused" help:"announcements that made no sense"`
	WindowsGranted       uint64 `count:"requests" help:"windows granted, each a request for a part with --discipline pull"`
	PartsInPlace         uint64 `count:"parts" help:"parts in place"`
	RejectedPlacements   uint64 `count:"strays" help:"placements that no grant explains, or that contradict what a slot holds"`
	BuiltMEPs            uint64 `count:"meps_built" help:"complete MEPs"`
	PlacedMFPs           uint64 `count:"mfps_placed" help:"MFPs in complete MEPs"`
	BuiltBytes           uint64 `count:"bytes_built" unit:"bytes" help:"bytes of MFPs in complete MEPs"`
	IncompleteMEPs       uint64 `count:"meps_incomplete" help:"MEPs given up as the unit ended: not whole, or not written"`

	OutstandingRequestsHigh uint64 `count:"window_high" kind:"max" help:"most requests without an answer"`
	RejectedMEPs            uint64 `count:"meps_rejected" help:"MEPs rejected after their region of interest"`
	RejectedMFPs            uint64 `count:"mfps_rejected" help:"MFPs of rejected MEPs that were placed"`
	UnrequestedMFPs         uint64 `count:"mfps_unasked" help:"MFPs of rejected MEPs that were never asked for"`
	UnrequestedParts        uint64 `count:"unasked" help:"parts of rejected MEPs that were never asked for"`
	SparedBytes             uint64 `count:"bytes_spared" unit:"bytes" help:"bytes of parts of rejected MEPs, which never crossed the network"`

	WithdrawnMEPs uint64 `count:"meps_withdrawn" help:"MEPs not whole when the unit was excluded, and given to others"`

	MEPsLackingParts   uint64 `count:"meps_marked" help:"complete MEPs that lack parts of readout units that were gone"`
	EventsLackingParts uint64 `count:"events_marked" help:"events in them"`
	MissingMFPs        uint64 `count:"mfps_missing" help:"MFPs of missing fragments made here"`
	MissingFragments   uint64 `count:"fragments_missing" help:"fragments in them"`
	LateParts          uint64 `count:"parts_late" help:"sizes and placements of readout units that were gone"`

	DiscardedMEPs uint64 `count:"meps_discarded" help:"complete MEPs that the output had no time for"`

	RejectedByReason rejectedPlacementCounts `count:"strays." help:"strays by reason"`
}
