package partition

import (
	"context"
	"maps"
	"slices"

	"ringlet/ecs/partition/fault"
	"ringlet/node/config"
)

// A Spawner starts and ends node processes of this control. See package spawn.
type Spawner interface {
	// Spawn starts the named nodes, which are to join the cluster at the given address. It tells of every one that ends.
	Spawn(names []string, join string, ended func(name, how string)) error
	// Stop ends all of them and waits.
	Stop()
}

// spawnedProcesses are the processes that this control has started.
type spawnedProcesses struct {
	running        map[string]bool
	endReasons     map[string]string // how those have ended that run no more
	nextProcessEnd chan struct{}     // closed with the next one that ends
}

// spawn starts processes for the members of a configuration that have none, where that is this control's to do. One
// that cannot be started has ended.
func (m *members) spawn(names []string) {
	if m.cfg.Spawner == nil {
		return
	}
	m.mu.Lock()
	var missing []string
	for _, name := range names {
		if !m.spawned.running[name] {
			missing = append(missing, name)
			m.spawned.running[name] = true
			delete(m.spawned.endReasons, name)
		}
	}
	m.mu.Unlock()
	for _, name := range missing {
		if err := m.cfg.Spawner.Spawn([]string{name}, m.cfg.Members.Addr().String(), m.noteProcessEnd); err != nil {
			m.noteProcessEnd(name, "could not be started: "+err.Error())
		}
	}
}

// noteProcessEnd takes that a process has ended that this control has started, and did not end.
func (m *members) noteProcessEnd(name, how string) {
	m.mu.Lock()
	delete(m.spawned.running, name)
	m.spawned.endReasons[name] = how
	close(m.spawned.nextProcessEnd)
	m.spawned.nextProcessEnd = make(chan struct{})
	m.mu.Unlock()
	m.publishf(severityError, "fault", name, "the process of %s %s", name, how)
	if nodeSet := m.currentState().nodeSet; nodeSet != nil {
		nodeSet.ObserveProcessEnd(name, how)
	}
}

// cancelOnProcessEnd is a context that ends as well when one of the processes that this control has started for the
// names does, or has: nobody needs to wait for it to join.
func (m *members) cancelOnProcessEnd(ctx context.Context, names []string) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	if m.cfg.Spawner == nil {
		return ctx, cancel
	}
	go func() {
		for {
			m.mu.Lock()
			news, ended := m.spawned.nextProcessEnd, slices.Collect(maps.Keys(m.spawned.endReasons))
			m.mu.Unlock()
			if slices.ContainsFunc(ended, func(name string) bool { return slices.Contains(names, name) }) {
				cancel()
			}
			select {
			case <-news:
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, cancel
}

// absentReason is why a member that is not there takes no part, as a clause.
func (m *members) absentReason(name string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if how := m.spawned.endReasons[name]; how != "" {
		return "its process " + how
	}
	return notJoinedReason
}

// crashFault is the fault of processes of these members that have ended; nil if none has.
func (m *members) crashFault(names []string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range names {
		if how := m.spawned.endReasons[name]; how != "" {
			return &fault.Error{Fault: fault.SeenByControl(name, fault.SubsystemProcess, "its process "+how)}
		}
	}
	return nil
}

// notJoinedReason is why a member takes no part of which nobody has heard.
const notJoinedReason = "it has not joined"

// wantedProcessNames are the names that a configuration wants processes for.
func wantedProcessNames(cfg *config.Config) []string {
	if names := cfg.MemberNames(); names != nil {
		return names
	}
	var names []string
	for _, r := range cfg.Roles() {
		names = append(names, r.Name)
	}
	return names
}
