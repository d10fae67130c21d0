package fsm

// Kinds of trouble that a subsystem may have: stable words, by which a control chooses its advice.
const (
	TroubleRecord       = "record"  // a record of the input is bad
	TroubleChanged      = "changed" // the input file is no longer the one that it was
	TroubleAddress      = "address" // this host does not have the address
	TroubleAddressInUse = "in_use"  // another process has the address
	TroubleExists       = "exists"  // a file exists that must not exist
	TroubleNameInUse    = "taken"   // another process has the name in shared memory
	TroubleGone         = "gone"    // a file or directory does not exist
	TroubleDenied       = "denied"  // the node has no permission
	TroubleFull         = "full"    // no space left
	TroubleUnresponsive = "mute"    // it does not answer any more
)
