package readoutunit

import (
	"errors"
	"fmt"
	"io"

	"ringlet/event/placing"
	"ringlet/tagnet"
)

var errNoTagRing = errors.New("a tag came where tags do not pass from unit to unit")

// launchTags takes the tags that came with tokens, which set out here.
func (u *Unit) launchTags(t *tagnet.Tokens) error {
	for i := range t.Tags {
		if err := u.acceptTag(&t.Tags[i]); err != nil {
			return err
		}
	}
	return nil
}

// HandleTag takes a signal of kind placing.KindTag from a readout unit. An error says what was wrong with it; it had no
// effect. A tag that contradicts the tokens ends the unit as well: it would never get back to the scheduler, and the
// tag ring stand still.
func (u *Unit) HandleTag(ru int, payload []byte) error {
	err := u.handleTag(ru, payload)
	var wrong *tagError
	if errors.As(err, &wrong) {
		u.fail(err)
	}
	return u.countRefusal(err)
}

func (u *Unit) handleTag(ru int, payload []byte) error {
	var buf [placing.MaxTagWords]uint64
	words, err := placing.ParseTag(&buf, payload)
	if err != nil {
		return err
	}
	t, rest, ok := tagnet.ParseTag(words)
	if !ok || len(rest) > 0 {
		return fmt.Errorf("%w: %d words that are no tag", placing.ErrBadMessage, len(words))
	}
	if ru != u.cfg.RU-1 {
		return fmt.Errorf("readout unit %d passed on a tag of MEP %d, and tags come only from the readout unit before "+
			"this one", ru, t.MEP)
	}
	return u.acceptTag(&t)
}

// acceptTag gives a tag to the order.
func (u *Unit) acceptTag(t *tagnet.Tag) error {
	if u.tagOrder == nil {
		return errNoTagRing
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := u.tagOrder.AddTag(t); err != nil {
		return err
	}
	u.changed.Broadcast()
	return nil
}

// forwardTags passes on the tags that this unit is done with.
func (u *Unit) forwardTags() error {
	for {
		var t tagnet.Tag
		u.mu.Lock()
		err := u.waitFor(func() (ok bool) {
			t, ok = u.tagOrder.NextForward()
			return ok
		})
		u.mu.Unlock()
		if err != nil {
			return err
		}
		switch err := u.cfg.ForwardTag(&t); {
		case errors.Is(err, io.EOF):
			return nil // the scheduler wants no tags any more: the run was abandoned
		case err != nil:
			return fmt.Errorf("passing on the tag of MEP %d: %w", t.MEP, err)
		}
	}
}
