package tagnet

import (
	"math/rand/v2"

	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
)

// commands are the operations that a control may request of a scheduler; the function sends one request and returns how
// many MEPs are issued again, or how many triggers were taken. Its errors
// match errUnknownUnit if the view has no such unit, and NotNow if the state does not allow the operation.
type commands func(*tagnetv1.ControlRequest) (n int, err error)

func (ask commands) simple(what tagnetv1.ControlRequest_Operation, name string) error {
	_, err := ask(&tagnetv1.ControlRequest{Operation: what, Target: name})
	return err
}

// Pause stops the issue of tokens until Resume. It is refused when drained.
func (ask commands) Pause() error { return ask.simple(tagnetv1.ControlRequest_OPERATION_PAUSE, "") }

// Resume ends a pause. It is refused when drained.
func (ask commands) Resume() error { return ask.simple(tagnetv1.ControlRequest_OPERATION_RESUME, "") }

// Drain stops the issue of new MEPs from end on; 0 means at once. Drained tells when the view is drained.
func (ask commands) Drain(end uint64) error {
	m := &tagnetv1.ControlRequest{Operation: tagnetv1.ControlRequest_OPERATION_DRAIN}
	if end > 0 {
		m.End = &end
	}
	_, err := ask(m)
	return err
}

// ClearRegisters begins the high-water marks anew for a user, whom the registers name.
func (ask commands) ClearRegisters(user string) error {
	_, err := ask(&tagnetv1.ControlRequest{Operation: tagnetv1.ControlRequest_OPERATION_CLEAR_REGISTERS, User: user})
	return err
}

// Trigger triggers events by hand and returns how many of the triggers were taken. It is refused in a run that has no
// trigger.
func (ask commands) Trigger(count uint64) (taken int, err error) {
	return ask(&tagnetv1.ControlRequest{Operation: tagnetv1.ControlRequest_OPERATION_TRIGGER, Count: count,
		Request: max(1, rand.Uint64())})
}

// ExcludeBU gives a builder unit no more tokens, cuts its stream and returns how many of its MEPs are issued again. A
// unit whose session had ended before is lost.
func (ask commands) ExcludeBU(name string) (reissued int, err error) {
	return ask(&tagnetv1.ControlRequest{Operation: tagnetv1.ControlRequest_OPERATION_EXCLUDE_BU, Target: name})
}

// LoseBU is ExcludeBU for a builder unit that is known to be gone, even if its stream has not broken yet.
func (ask commands) LoseBU(name string) (reissued int, err error) {
	return ask(&tagnetv1.ControlRequest{Operation: tagnetv1.ControlRequest_OPERATION_LOSE_BU, Target: name})
}

// IncludeBU lets an excluded builder unit attach again, and gives it tokens once it has. It is refused while a readout
// unit has not confirmed the exclusion, for a lost unit, and when drained.
func (ask commands) IncludeBU(name string) error {
	return ask.simple(tagnetv1.ControlRequest_OPERATION_INCLUDE_BU, name)
}

// ReadmitBU lets a lost builder unit attach as another process, to which the readout units have new links, and gives it
// tokens once it has. It is refused when drained.
func (ask commands) ReadmitBU(name string) error {
	return ask.simple(tagnetv1.ControlRequest_OPERATION_READMIT_BU, name)
}

// ExcludeRU goes on without a readout unit and cuts its stream. It is refused where readout units form a tag ring.
func (ask commands) ExcludeRU(name string) error {
	return ask.simple(tagnetv1.ControlRequest_OPERATION_EXCLUDE_RU, name)
}

// IncludeRU lets an excluded readout unit attach again, and take part from then on. It is refused when no new MEPs will
// be issued. A second call does nothing.
func (ask commands) IncludeRU(name string) error {
	return ask.simple(tagnetv1.ControlRequest_OPERATION_INCLUDE_RU, name)
}

// SetSubstitute lets another node attach with the units of a node, which itself may not attach any more. An empty
// substitute lets the node itself attach again.
func (ask commands) SetSubstitute(name, substitute string) error {
	_, err := ask(&tagnetv1.ControlRequest{
		Operation:  tagnetv1.ControlRequest_OPERATION_SUBSTITUTE,
		Target:     name,
		Substitute: substitute,
	})
	return err
}
