package node

import (
	"ringlet/barrier"
	"ringlet/event/placing"
	"ringlet/transport"
)

// handler passes what happens on the links to the units. It is called by the links' receivers.
type handler session

func (h *handler) Placed(peer int, p transport.Placement) {
	if unit := h.decisions.unit.Load(); unit != nil && unit.IsRingOf(peer, p.Ref) {
		unit.ResultsPlaced(peer, p.Ref, p.Offset, p.Length)
		return
	}
	if bu := h.bu.Load(); bu != nil {
		bu.Placed(peer, p)
	}
}

func (h *handler) PlacedMany(peer int, ps []transport.Placement) {
	if bu := h.bu.Load(); bu != nil {
		bu.PlacedMany(peer, ps)
	}
}

func (h *handler) Signal(peer int, payload []byte) {
	if err := h.signal(peer, payload); err != nil {
		h.counters.BadSignals.Add(1)
		h.node.log.Warn("a signal was not used", "peer", h.view.GetMembers()[peer].GetName(), "err", err)
	}
}

func (h *handler) signal(peer int, payload []byte) error {
	if len(payload) == 0 {
		return placing.ErrBadMessage
	}
	kind, ru, bu, bar := placing.Kind(payload[0]), h.ru.Load(), h.bu.Load(), h.barrier.Load()
	from, readout := h.ruByRank[peer]
	switch kind {
	case placing.KindAnnounce, placing.KindWindowRequest, placing.KindQuiesced:
		if bu == nil {
			return errNoSuchUnit
		}
	case placing.KindGrant, placing.KindPreGrants:
		if ru == nil {
			return errNoSuchUnit
		}
	case placing.KindTag:
		if ru == nil || !readout {
			return errNoSuchUnit
		}
	case placing.KindBarrier:
		if bar == nil || !readout {
			return errNoSuchUnit
		}
	}
	switch kind {
	case placing.KindBarrier:
		return bar.Deliver(from, payload[1:])
	case placing.KindAnnounce:
		return bu.HandleAnnounce(peer, payload)
	case placing.KindWindowRequest:
		return bu.AnswerWindowRequest(peer, payload)
	case placing.KindQuiesced:
		return bu.RecordQuiesced(peer, payload)
	case placing.KindGrant:
		return ru.HandleGrant(peer, payload)
	case placing.KindPreGrants:
		return ru.HandlePreGrants(peer, payload)
	case placing.KindTag:
		return ru.HandleTag(from, payload)
	case placing.KindDecision:
		return (*session)(h).receiveDecisionSignal(peer, payload[1:])
	}
	return placing.ErrBadMessage
}

func (h *handler) Completed(peer int, cookie uint64, err error) {
	if cookie&resultCookie != 0 {
		if sender := h.decisions.sender.Load(); sender != nil {
			sender.WriteCompleted(cookie&^resultCookie, err)
		}
		return
	}
	if ru := h.ru.Load(); ru != nil {
		ru.HandleCompletion(peer, cookie, err)
	}
}

func (h *handler) Refused(peer int, p transport.Placement, err error) {
	if ru, readout := h.ruByRank[peer]; readout && (*session)(h).isReadoutGone(ru) {
		h.counters.WritesLate.Add(1) // of a readout unit that was taken for gone before it was
		return
	}
	h.counters.WritesRefused.Add(1)
	h.node.log.Warn("refused a peer's write", "peer", h.view.GetMembers()[peer].GetName(), "window", p.Ref.Window,
		"offset", p.Offset, "length", p.Length, "err", err)
}

func (h *handler) Malformed(peer int, err error) {
	h.counters.Malformed.Add(1)
	h.node.log.Warn("dropped a malformed datagram", "peer", h.view.GetMembers()[peer].GetName(), "err", err)
}

func (h *handler) LinkDown(peer int, err error) {
	h.counters.LinksDown.Add(1)
	(*session)(h).onLinkDown(peer, err)
}

// barrierSignaler sends barrier messages to readout units by their index.
type barrierSignaler struct{ s *session }

func (b *barrierSignaler) Signal(ru int, payload []byte) error {
	var message [1 + barrier.MessageSize]byte
	message[0] = byte(placing.KindBarrier)
	return tolerantSignaler(*b).Signal(b.s.ruRanks[ru], message[:1+copy(message[1:], payload)])
}
