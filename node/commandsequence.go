package node

import (
	"fmt"
	"sync"

	nodev1 "ringlet/proto/ringlet/node/v1"
)

// commandSequence keeps a control's commands in the order in which it gave them. A network that is cut holds back what
// a control said to the node before; the control has long gone on over another connection when it arrives. A stop of a
// run that is over would end the next one.
type commandSequence struct {
	mu   sync.Mutex
	term uint64 // of the control that gave the newest
	last uint64 // the newest command of that term
}

// accept refuses a command that comes after a newer one of the same control. One that is given twice is taken twice.
func (o *commandSequence) accept(req *nodev1.CommandRequest) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	term, order := req.GetTerm().GetNumber(), req.GetOrder()
	switch {
	case order == 0:
		return nil
	case term != o.term: // the fence has refused older ones
		o.term, o.last = term, order
	case order < o.last:
		return fmt.Errorf("command %d of the control came after its command %d: it was held up on the way, and the "+
			"control has gone on", order, o.last)
	}
	o.last = order
	return nil
}
