package partition

import (
	"context"
	"fmt"
	"maps"
	"time"

	"ringlet/ecs/api"
	"ringlet/ecs/partition/nodes"
	"ringlet/node/fsm"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// moveTimeout bounds how long a move in a run waits until the other node has the units: a file may be passed over.
const moveTimeout = 20 * time.Second

// movePollInterval is how often it looks.
const movePollInterval = 50 * time.Millisecond

// mover moves the units of members to other nodes.
type mover struct{ *Partition }

// move has the process of a node take the units of a member. In a run the member is lost first, if it is not lost yet,
// and move waits until the node has the units; outside of one the next configure takes the node.
func (p mover) move(ctx context.Context, user, member, to string) (*ecsv1.CommandResponse, error) {
	p.conductor.commandMu.Lock()
	now, state := p.currentState(), p.runner.Status().State
	err := p.mayMove(now, state, member, to)
	if err == nil {
		p.updateState(func(s *partitionState) {
			s.moves, s.excluded = maps.Clone(s.moves), maps.Clone(s.excluded)
			if s.moves == nil {
				s.moves = map[string]string{}
			}
			s.moves[member] = to
			delete(s.excluded, member)
		})
		if now.isBuilding(state) {
			now.run.GiveUpNode(member, user+" moves its units to "+to)
		} else if now.nodeSet != nil {
			now.nodeSet.MarkUnlinked()
		}
		p.saveState()
	}
	p.conductor.commandMu.Unlock()
	out := &ecsv1.CommandResponse{State: state.String(), Run: p.lastRun()}
	switch {
	case err != nil:
		return nil, err
	case !now.isBuilding(state):
		out.Message = fmt.Sprintf("%s has the units of %s in the next run", to, member)
	case !awaitMoved(ctx, now.run, member, to, p.timeoutFor(moveTimeout)):
		return nil, preconditionError(state, commandMove, fmt.Sprintf("%s has not taken the units of %s yet: the journal "+
			"says why, and the control goes on trying", to, member))
	default:
		out.Message = fmt.Sprintf("%s has the units of %s", to, member)
	}
	p.publish(&ecsv1.Event{Kind: "moved", Component: member, User: user, Text: out.Message, Severity: severityWarning})
	return out, nil
}

// awaitMoved waits until a node has the units of a member, and tells whether it has.
func awaitMoved(ctx context.Context, run *nodes.Run, member, to string, atMost time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	for !run.HasProcess(member, to) {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(movePollInterval):
		}
	}
	return true
}

// mayMove says why a node cannot have the units of a member; nil if it can.
func (p mover) mayMove(now partitionState, state fsm.State, member, to string) error {
	if err := now.exclusionError(state, commandMove, member); err != nil {
		return err
	}
	m, there := p.cfg.Members.ByName()[to]
	if !there || !m.Meta.Roles.HoldsUnit() {
		return &api.ArgumentError{Name: "arguments.to", Why: fmt.Sprintf("no node called %q has joined", to)}
	}
	l := now.loadedConfig
	if err := maySubstitute(&l.cfg, l.names, member, m); err != nil {
		return preconditionError(state, commandMove, err.Error())
	}
	if to != member && now.loadedConfig.hasMember(to) {
		return preconditionError(state, commandMove, to+" is a member itself: units go to spares, or back to their own node")
	}
	for other, by := range now.moves {
		if by == to && other != member {
			return preconditionError(state, commandMove, fmt.Sprintf("%s has the units of %s", to, other))
		}
	}
	if !now.isBuilding(state) {
		return nil
	}
	if now.run.HasProcess(member, to) {
		return preconditionError(state, commandMove, fmt.Sprintf("%s has the units of %s already", to, member))
	}
	if err := now.run.MayLose(member); err != nil {
		return preconditionError(state, commandMove, err.Error())
	}
	return nil
}
