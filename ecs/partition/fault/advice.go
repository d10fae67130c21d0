package fault

import (
	"strings"

	"ringlet/node/fsm"
)

// adviceBySubsystem is what to do about a fault of a subsystem.
var adviceBySubsystem = map[string]string{
	subsystemConfig: "Correct the configuration, and load it again.",
	"memory": "Give the node's host more shared memory, or take fewer or smaller slots; " +
		"`ringlet doctor` says there what binds.",
	subsystemLinks:     "Reset the partition and configure it again.",
	SubsystemTransport: "Look at the network between the two hosts, and whether both run the same release.",
	"barrier": "Look what holds that readout unit up: its processor, its source, its network; " +
		"where phases are long, set a longer barrier-timeout.",
	SubsystemScheduler: "Look at the log of the node that has the scheduler, then begin the next run.",
	subsystemInput:     "Correct the input that it names, or look at the program that sends its data, then start again.",
	subsystemOutput: "Look at the disk, the network or the reader that this output needs; " +
		"what it has written stays.",
	"builder_unit": "Look at what takes its output, the disk or the reader of its buffer; " +
		"what it has written stays.",
	SubsystemData: "Look at the host of that readout unit, its memory first, and at what fills the source that is " +
		"named: another node, which is sound, has checked the data that came and found them bad.",
	SubsystemCertificate: "Make certificates that are valid with `ringlet certs`, and put them where the node and the " +
		"control read theirs; a process reads them again by itself.",
	SubsystemControl:     "End one of the two controls: the one that came last has the nodes.",
	SubsystemNodeService: "Look at the log of the node, and whether the control can reach it at that address.",
}

// troubleKey is a subsystem with a kind of trouble.
type troubleKey struct{ subsystem, kind string }

// adviceByTrouble is what to do about a fault of a subsystem whose kind of trouble is known.
var adviceByTrouble = map[troubleKey]string{
	{subsystemInput, fsm.TroubleRecord}:  "`ringlet inspect` shows that record; on-bad-record: skip leaves it out.",
	{subsystemInput, fsm.TroubleChanged}: "Leave the file as it is from configure on, then configure again.",
	{subsystemInput, fsm.TroubleAddress}: "Give this input an address of the node's own host, which `ip addr` lists there, or a " +
		"name that leads to one, and a port up to 65535.",
	{subsystemInput, fsm.TroubleAddressInUse}: "End the process that listens there, which `ss -lptu` names, or give this input another " +
		"address.",
	{subsystemInput, fsm.TroubleExists}: "Remove that file if nobody needs it, or give this input another name.",
	{subsystemInput, fsm.TroubleNameInUse}: "End the process that has that name in shared memory, another run perhaps, " +
		"or give this input another name.",
	{subsystemInput, fsm.TroubleGone}:   "Make the directory on the node's host, or give this input another path.",
	{subsystemInput, fsm.TroubleDenied}: "Let the user of the node's process have it, or give this input another address.",
	{subsystemInput, fsm.TroubleFull}: "Give the node's host more shared memory, or this input a smaller ring; " +
		"`ringlet doctor` says there what binds.",
	{SubsystemNodeService,
		fsm.TroubleUnresponsive}: "Its process stands still: end it, and keep what its log says of that for a report; " +
		"left alone it ends itself after a minute.",
	{subsystemOutput, fsm.TroubleFull}: "Make room where it writes, or let the output go elsewhere; " +
		"what it has written stays.",
	{subsystemOutput, fsm.TroubleGone}: "Look who has removed or moved it, or whether its disk is still mounted: " +
		"what was in it went with it. Leave an output alone until its run is over.",
	{subsystemOutput, fsm.TroubleDenied}: "Let the user of the node's process write there, or let the output go " +
		"elsewhere; what it has written stays.",
	{subsystemOutput, fsm.TroubleAddressInUse}: "End the process that has that address, or let the output go elsewhere.",
	{subsystemOutput, fsm.TroubleAddress}:      "Correct the address of the output.",
	{subsystemOutput, fsm.TroubleNameInUse}: "End the process that has the buffer, another run perhaps, " +
		"or give the buffer of this output another name.",
	{subsystemOutput, fsm.TroubleExists}: "Remove it, or let the output go elsewhere, or give --overwrite.",
	{SubsystemProcess, fsm.TroubleUnresponsive}: "Its log says which loop stood still, and what it was at: " +
		"keep that for a report of this fault.",
}

// adviceFor is what to do about an observation.
func (a *account) adviceFor(x Observation) string {
	text, found := adviceByTrouble[troubleKey{x.Subsystem, x.Trouble}]
	switch {
	case x.Subsystem == SubsystemNodeService && x.Trouble == fsm.TroubleUnresponsive && a.core.spawnsNodes:
		return "Its process stands still, and is ended with this run. Where that comes again, wait for a minute " +
			"before the run ends: then the log of the node says what it was at."
	case found && x.Kind.processEnded():
		return text + a.restartClause(x.Component)
	case found:
		return text
	case x.What == departureText && a.core.spawnsNodes:
		return "The next run starts its process again."
	case x.What == departureText:
		return "It comes back into this run when its process is started again" +
			a.core.nodes[x.Component].onHost(" on ") + "."
	case x.Subsystem == SubsystemCertificate || strings.Contains(x.What, "certificate"):
		return adviceBySubsystem[SubsystemCertificate]
	case x.Kind.processEnded() && a.core.spawnsNodes:
		return "Look at what ended it, the kernel for want of memory perhaps; " + a.whoRestarts(x.Component) + "."
	case x.Kind.processEnded():
		return "Look at what ended it, the kernel for want of memory perhaps, and start its process again" +
			a.core.nodes[x.Component].onHost(" on ") + "."
	case x.Kind == ProcessStopped:
		return "Look who stopped it (SIGSTOP, a debugger); let it go on by `kill -CONT`, or end it: " +
			a.whoRestarts(x.Component) + "."
	case x.Subsystem == SubsystemData:
		return adviceBySubsystem[SubsystemData]
	case x.Kind == SilentToControl || x.Kind == Disconnected:
		return "Look whether its process and its host live and can be reached from the control and the other nodes; " +
			"if it stands still, end it and start it again."
	}
	return adviceBySubsystem[x.Subsystem]
}

// whoRestarts says when the control starts the process of a node again, which it started before: a clause.
func (a *account) whoRestarts(name string) string {
	if n := a.core.nodes[name]; n != nil && n.lostToRun {
		return "its process is started again and comes back into this run"
	}
	return "the next run starts its process again"
}

// restartClause says whether the control or a person starts the process of a node again: a sentence after a blank.
func (a *account) restartClause(name string) string {
	if a.core.spawnsNodes {
		clause := a.whoRestarts(name)
		return " " + strings.ToUpper(clause[:1]) + clause[1:] + "."
	}
	return " Start its process again" + a.core.nodes[name].onHost(" on ") + "."
}

// onHost is the host of a node, after words; empty if the host is not known.
func (n *node) onHost(words string) string {
	if n == nil || n.host == "" {
		return ""
	}
	return words + n.host
}

// location is a clause with the process and the host of a node; empty if neither is known.
func (n *node) location() string {
	switch {
	case n == nil || n.host == "" && n.processID == "":
		return ""
	case n.processID == "":
		return n.onHost(", on ")
	}
	return ", process " + n.processID + n.onHost(" on ")
}
