package node

// watchLoops adds the loops of this node to the watchdog: the command service, its components, its links, and its
// scheduler, if it has one. Each check takes the lock that the loop holds while it works, and waits for nothing else:
// no disk, no peer.
func (n *process) watchLoops() {
	watch := func(name string, look func()) { n.cfg.Watchdog.AddLoop("node "+n.cfg.Name+": "+name, look) }
	watchComponent := func(name string, is func(component) bool) {
		watch(name, func() {
			s, _ := n.sessionAndRequest()
			if s == nil {
				return
			}
			for _, c := range s.components {
				if is(c) {
					c.report(&figures{})
				}
			}
		})
	}
	watch("its command service", func() { n.status() })
	watchComponent("its readout unit", func(c component) bool { _, is := c.(*readout); return is })
	watchComponent("its builder unit", func(c component) bool { _, is := c.(*builder); return is })
	watchComponent("its decision unit", func(c component) bool { _, is := c.(*decisionUnit); return is })
	watch("its links", func() {
		if s, _ := n.sessionAndRequest(); s != nil {
			s.endpoint.Stats()
		}
	})
	watch("the scheduler", func() {
		if server := n.schedulerHost.Server(); server != nil {
			server.Registers()
		}
	})
}
