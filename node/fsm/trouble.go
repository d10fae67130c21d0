package fsm

// Kinds of trouble that a subsystem may have: stable words, by which a control chooses its advice.
const (
	TroubleRecord       = "record"  // a record of the input is bad
	TroubleChanged      = "changed" // the input is not the file any more that it was
	TroubleAddress      = "address" // no address of this host
	TroubleAddressInUse = "in_use"  // another process has the address
	TroubleExists       = "exists"  // a file is there that must not be
	TroubleNameInUse    = "taken"   // another process has the name in shared memory
	TroubleGone         = "gone"    // a file or directory is not there
	TroubleDenied       = "denied"  // the node may not
	TroubleFull         = "full"    // no room
	TroubleUnresponsive = "mute"    // it does not answer any more
)
