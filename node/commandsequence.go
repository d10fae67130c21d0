package node

import (
	"fmt"
	"sync"

	nodev1 "ringlet/proto/ringlet/node/v1"
)

// commandSequence keeps a control's commands in the order in which the control gave them. For example, a network is cut
// and holds back a stop; the control goes on over another connection, ends the run and starts the next one; then the
// old stop arrives, and would end the new run.
type commandSequence struct {
	mu   sync.Mutex
	term uint64 // of the control that gave the newest command
	last uint64 // number of its newest command
}

// accept refuses a command that comes after a newer one of the same control. A repeated command is accepted again.
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
