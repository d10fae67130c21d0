package fault

import "strings"

// advised is what to do about a fault of a part.
var advised = map[string]string{
	"configuration": "Correct the configuration, and load it again.",
	"memory": "Give the node's host more shared memory, or take fewer or smaller slots; " +
		"`ringlet doctor` says there what binds.",
	partLinks:     "Reset the partition and configure it again.",
	PartTransport: "Look at the network between the two hosts, and whether both run the same release.",
	"barrier": "Look what holds that readout unit up: its processor, its source, its network; " +
		"where phases are long, set a longer barrier-timeout.",
	PartScheduler: "Look at the log of the node that has the scheduler, then begin the next run.",
	"input": "Look at the input that it names; `ringlet inspect` shows the record, on-bad-record: skip leaves it " +
		"out.",
	"output": "Make room where it writes, or let the output go elsewhere; what it has written stays.",
	"builder_unit": "Look at what takes its output, the disk or the reader of its buffer; " +
		"what it has written stays.",
	PartCertificate: "Make certificates that are valid with `ringlet certs`, and put them where the node and the " +
		"control read theirs; a process reads them again by itself.",
	PartFenced:  "End one of the two controls: the one that came last has the nodes.",
	PartService: "Look at the log of the node, and whether the control can reach it at that address.",
}

// advice is what to do about what was seen.
func (c *Core) advice(x Sight) string {
	switch {
	case x.Part == PartCertificate || strings.Contains(x.What, "certificate"):
		return advised[PartCertificate]
	case x.Kind.over() && c.own:
		return "Look at what ended it, the kernel for want of memory perhaps; " +
			"the next run starts its process again."
	case x.Kind.over():
		return "Look at what ended it, the kernel for want of memory perhaps, and start its process again" +
			c.there(x.Component) + "."
	case x.Kind == Missing || x.Kind == Cut:
		return "Look whether its process and its host live and can be reached from the control and the other nodes; " +
			"if it stands still, end it and start it again."
	}
	return advised[x.Part]
}

// there is where a node ran, as the end of a sentence.
func (c *Core) there(name string) string {
	if n := c.nodes[name]; n != nil && n.host != "" {
		return " on " + n.host
	}
	return ""
}
