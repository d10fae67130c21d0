package node

import nodev1 "ringlet/proto/ringlet/node/v1"

// readoutName is the name of the node with a readout unit in the present view; this node's name if there is none.
func (n *process) readoutName(ru int) string {
	_, req := n.sessionAndRequest()
	for _, m := range req.GetView().GetMembers() {
		if m.GetReadout() && int(m.GetRuIndex()) == ru {
			return m.GetName()
		}
	}
	return n.memberName()
}

// memberName is the name of this node in the present view: that of the member that it substitutes for, or its own.
func (n *process) memberName() string {
	_, req := n.sessionAndRequest()
	return memberName(req.GetView(), n.cfg.Name)
}

// memberName is the name in a view of the process with the given name, which it keeps if it has none there.
func memberName(v *nodev1.View, process string) string {
	for _, m := range v.GetMembers() {
		if ProcessName(m) == process {
			return m.GetName()
		}
	}
	return process
}
