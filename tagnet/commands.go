package tagnet

import tagnetv1 "ringlet/proto/ringlet/tagnet/v1"

// commands are what a control may ask of a scheduler, wherever that is: each asks for one operation. Errors match
// errUnknownUnit where the view has no such unit, and NotNow where the operation makes no sense in this state.
type commands func(*tagnetv1.ControlRequest) (reissued int, err error)

func (ask commands) simple(what tagnetv1.ControlRequest_Operation, name string) error {
	_, err := ask(&tagnetv1.ControlRequest{Operation: what, Target: name})
	return err
}

// Pause issues nothing more until Resume. It is refused when drained.
func (ask commands) Pause() error { return ask.simple(tagnetv1.ControlRequest_OPERATION_PAUSE, "") }

// Resume ends a pause. It is refused when drained.
func (ask commands) Resume() error { return ask.simple(tagnetv1.ControlRequest_OPERATION_RESUME, "") }

// Drain issues no new MEP from end on, 0 meaning none at all. Drained tells when it is over.
func (ask commands) Drain(end uint64) error {
	m := &tagnetv1.ControlRequest{Operation: tagnetv1.ControlRequest_OPERATION_DRAIN}
	if end > 0 {
		m.End = &end
	}
	_, err := ask(m)
	return err
}

// ExcludeBU gives a builder unit no more tokens, cuts its stream and returns how many of its MEPs are issued again. One
// whose stream has broken is lost.
func (ask commands) ExcludeBU(name string) (reissued int, err error) {
	return ask(&tagnetv1.ControlRequest{Operation: tagnetv1.ControlRequest_OPERATION_EXCLUDE_BU, Target: name})
}

// LoseBU is ExcludeBU for a builder unit that is known to be gone, whether its stream has broken yet or not.
func (ask commands) LoseBU(name string) (reissued int, err error) {
	return ask(&tagnetv1.ControlRequest{Operation: tagnetv1.ControlRequest_OPERATION_LOSE_BU, Target: name})
}

// IncludeBU lets an excluded builder unit attach again, and gives it tokens when it has. It is refused while a readout
// unit has not confirmed the exclusion, of a unit that is lost, and when drained.
func (ask commands) IncludeBU(name string) error {
	return ask.simple(tagnetv1.ControlRequest_OPERATION_INCLUDE_BU, name)
}

// ExcludeRU goes on without a readout unit and cuts its stream. It is refused where units form a ring.
func (ask commands) ExcludeRU(name string) error {
	return ask.simple(tagnetv1.ControlRequest_OPERATION_EXCLUDE_RU, name)
}

// IncludeRU lets an excluded readout unit attach again, and take part from then on. It is refused when no new MEP will
// be issued. Twice is once.
func (ask commands) IncludeRU(name string) error {
	return ask.simple(tagnetv1.ControlRequest_OPERATION_INCLUDE_RU, name)
}
