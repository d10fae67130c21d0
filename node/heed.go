package node

// heed has the loops of this node looked after: those that answer commands, and those of its units, its links and the
// scheduler, if that is here. Each look takes the lock that a loop holds while it works, and waits for nothing else: no
// disk, no peer.
func (n *process) heed() {
	of := func(name string, look func(s *session)) {
		n.cfg.Dog.Look("node "+n.cfg.Name+": "+name, func() {
			if s, _ := n.current(); s != nil {
				look(s)
			}
		})
	}
	n.cfg.Dog.Look("node "+n.cfg.Name+": what answers commands", func() { n.status() })
	of("its readout unit", func(s *session) {
		if ru := s.ru.Load(); ru != nil {
			ru.Stats()
		}
	})
	of("its builder unit", func(s *session) {
		if bu := s.bu.Load(); bu != nil {
			bu.Stats()
		}
	})
	of("its decision unit", func(s *session) {
		if unit := s.deciding.unit.Load(); unit != nil {
			unit.Stats()
		}
	})
	of("its links", func(s *session) { s.endpoint.Stats() })
	of("its barrier", func(s *session) {
		if b := s.barrier.Load(); b != nil {
			b.Stats()
		}
	})
	n.cfg.Dog.Look("node "+n.cfg.Name+": the scheduler", func() {
		if server := n.host.Server(); server != nil {
			server.Registers()
		}
	})
}
