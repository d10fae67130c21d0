package node

// watchLoops has the loops of this node looked after: those that answer commands, and those of its units, its links and
// the scheduler, if that is here. Each look takes the lock that a loop holds while it works, and waits for nothing
// else: no disk, no peer.
func (n *process) watchLoops() {
	watchSession := func(name string, look func(s *session)) {
		n.cfg.Watchdog.AddLoop("node "+n.cfg.Name+": "+name, func() {
			if s, _ := n.sessionAndRequest(); s != nil {
				look(s)
			}
		})
	}
	n.cfg.Watchdog.AddLoop("node "+n.cfg.Name+": what answers commands", func() { n.status() })
	watchSession("its readout unit", func(s *session) {
		if ru := s.ru.Load(); ru != nil {
			ru.Stats()
		}
	})
	watchSession("its builder unit", func(s *session) {
		if bu := s.bu.Load(); bu != nil {
			bu.Stats()
		}
	})
	watchSession("its decision unit", func(s *session) {
		if unit := s.decisions.unit.Load(); unit != nil {
			unit.Stats()
		}
	})
	watchSession("its links", func(s *session) { s.endpoint.Stats() })
	watchSession("its barrier", func(s *session) {
		if b := s.barrier.Load(); b != nil {
			b.Stats()
		}
	})
	n.cfg.Watchdog.AddLoop("node "+n.cfg.Name+": the scheduler", func() {
		if server := n.schedulerHost.Server(); server != nil {
			server.Registers()
		}
	})
}
