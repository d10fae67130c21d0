package tagnet

// State of the scheduler (TagNet-farm §VII.C, CSR 4).
type State uint8

// The states, in the order of a run without incidents. Their values are those of the protocol.
const (
	Idle     State = iota + 1 // not started
	Running                   // tokens are issued
	Paused                    // nothing is issued, outcomes are taken
	Draining                  // the last MEP is known; what is left is issued and outcomes are awaited
	Drained                   // every issued MEP has its outcome and none will follow
)

func (s State) String() string {
	return enumName(int(s), "unknown", "idle", "running", "paused", "draining", "drained")
}

// Outcome of a MEP. Every issued MEP gets exactly one.
type Outcome uint8

// The outcomes. The values of the first four are those of the protocol.
const (
	Built      Outcome = iota + 1 // all MFPs are in the MEP
	Incomplete                    // some MFPs are missing
	Discarded                     // the builder unit could not keep up and let it go (LHCb-EB §IV.B)
	Rejected                      // by a decision on a part of it (TagNet-farm §II.H: regions of interest)
	Abandoned                     // the scheduler gave it up: too many attempts, or the run was abandoned
)

func (o Outcome) String() string {
	return enumName(int(o), "unknown", "built", "incomplete", "discarded", "rejected", "abandoned")
}

// Update is what a readout unit holds.
type Update struct {
	ReadBelow  uint64 // every MFP of a MEP below has been read from every source of the unit
	Events     uint64 // events in the MEPs from Config.FirstMEP up to Read
	InputEnded bool   // the input has ended: Read is final
}

// Feedback returns a slot and tells the outcome of the MEP that was in it (TagNet-farm §III.B.4).
type Feedback struct {
	MEP     uint64
	Slot    uint32
	Events  uint32 // found in the MEP; checked if it was built
	Attempt uint8  // as in the token
	Outcome Outcome
}

// WaitReason says why nothing is issued.
type WaitReason uint8

// The reasons, in the order they are looked for.
const (
	NotWaiting    WaitReason = iota
	WaitForStart             // not started
	WaitForResume            // paused
	WaitForEnd               // drained, or nothing more will come
	// no readout watermark is ahead, or too few MEPs for a full cycle while others are in flight
	WaitForInput
	WaitForBuilders  // no builder unit is active
	WaitForLookAhead // as many cycles in flight as the look-ahead allows
	WaitForWindow    // the released watermark is too far behind; only where the window is a cycle or less
	WaitForSlots     // Wait: one builder unit has no free slot; Skip: none has
	// Wait: the group whose turn it is has its running event; Skip: so have all with free slots
	WaitForGroup
	numberOfWaitReasons = iota
)

func (w WaitReason) String() string {
	return enumName(int(w), "", "start", "resume", "end", "input", "builders", "look_ahead", "window", "slots", "group")
}
