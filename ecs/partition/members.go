package partition

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"ringlet/ecs/partition/fault"
	"ringlet/ecs/partition/nodes"
	"ringlet/internal/nodename"
	"ringlet/node/cluster"
	"ringlet/node/config"
	"ringlet/node/fsm"
)

// members determines the nodes that take part, connects to them, and takes them from state to state outside of runs.
type members struct {
	*control
	onLost func(nodes.Loss) // called with a loss that the policy of a run tolerates

	mu      sync.Mutex // guards what follows
	spawned spawnedProcesses
}

// resolveMembers completes the loaded configuration: it reads the input for streams and slots, and chooses the members.
func (m *members) resolveMembers(ctx context.Context) (loadedConfig, error) {
	l := *m.currentState().loadedConfig
	if l.names != nil {
		return l, nil
	}
	if !l.prepared {
		if err := nodes.Prepare(ctx, &l.cfg, m.cfg.AllowedInputs); err != nil {
			return l, err
		}
	}
	names, err := m.chooseMembers(ctx, &l.cfg)
	if err != nil {
		return l, err
	}
	l.names = names
	m.updateState(func(s *partitionState) { s.loadedConfig = &l })
	return l, nil
}

// chooseMembers are the members of a configuration: those it names, or the first by name that have joined.
func (m *members) chooseMembers(ctx context.Context, cfg *config.Completed) ([]string, error) {
	if names := cfg.MemberNames(); names != nil {
		return names, nil
	}
	joined := m.awaitNodes(ctx, *cfg, m.joinDeadline())
	names, err := layOut(cfg, joined)
	if err == nil {
		return names, nil
	}
	if err := m.crashFault(wantedProcessNames(cfg)); err != nil {
		return nil, err
	}
	if names := cluster.UnitNames(joined); len(names) < cfg.Nodes {
		return nil, fmt.Errorf("%d nodes are wanted, and only %d have joined at %s: %s",
			cfg.Nodes, len(names), m.cfg.Members.Addr(), strings.Join(names, ", "))
	}
	return nil, err
}

// participants are the nodes that take part now.
type participants struct {
	cfg       config.Completed // for them alone
	names     []string
	processes []string // the nodes whose processes have the units of the names
	absent    []absentNode
}

// selectParticipants returns the participants, or an error if the loss policies do not tolerate the absent nodes.
func (m *members) selectParticipants(l *loadedConfig, absent []absentNode,
	present map[string]cluster.Member) (participants, error) {
	absent = m.addUnjoined(absent, l.names, present)
	cfg, names, err := selectMembers(l.cfg, l.names, absent)
	if err == nil {
		err = checkRoles(&cfg, names, present)
	}
	processes := make([]string, len(names))
	for i, name := range names {
		processes[i] = present[name].Name
	}
	return participants{cfg, names, processes, absent}, err
}

// nodeSetMatches says whether a NodeSet has exactly the participants and their configuration, and all its nodes are
// present: configure can use it as it is.
func (m *members) nodeSetMatches(nodeSet *nodes.NodeSet, want participants) bool {
	if !m.allPresent(nodeSet) || !slices.Equal(nodeSet.Names(), want.names) ||
		!slices.Equal(nodeSet.Processes(), want.processes) {
		return false
	}
	was := nodeSet.Configuration()
	was.RunNumber, want.cfg.RunNumber = 0, 0
	return was == want.cfg
}

// loadMembers determines the participants, connects to them if they have changed, and takes them to NotReady.
func (m *members) loadMembers(ctx context.Context) error {
	l, err := m.resolveMembers(ctx)
	if err != nil {
		return err
	}
	before := m.currentState()
	old, absent := before.nodeSet, before.excludedNodes()
	present := withSubstitutes(&l.cfg, l.names, absent, m.currentState().moves,
		m.awaitMembers(ctx, l.names, absent, m.joinDeadline()))
	now, err := m.selectParticipants(&l, absent, present)
	if err != nil {
		return err
	}
	if m.nodeSetMatches(old, now) && old.AllInNotReady(ctx) {
		return nil
	}
	nodeSet, absent, err := m.connectMembers(ctx, &l, present, now.absent)
	if err != nil {
		return err
	}
	if old != nil {
		old.CloseConnections() // not earlier: a command that interrupts this step needs a NodeSet
	}
	m.updateState(func(s *partitionState) {
		s.nodeSet, s.loadedConfig = nodeSet, &loadedConfig{
			original: l.original,
			cfg:      l.cfg,
			names:    l.names,
			absent:   absent,
		}
	})
	cfg := nodeSet.Configuration()
	if err := cfg.CheckNodes(nodeSet.Facts()); err != nil {
		return err
	}
	return nodeSet.Load(ctx)
}

// connectMembers makes the NodeSet of the members that are present and answer. A member that does not answer counts as
// absent, since gossip takes seconds to miss a node.
func (m *members) connectMembers(ctx context.Context, l *loadedConfig, present map[string]cluster.Member,
	absent []absentNode) (*nodes.NodeSet, []absentNode, error) {
	for {
		cfg, names, err := selectMembers(l.cfg, l.names, absent)
		if err != nil {
			return nil, absent, err
		}
		members := make([]cluster.Member, len(names))
		for i, name := range names {
			members[i] = present[name]
		}
		nodeSet := nodes.NewNodeSet(m.nodeSetOptions(&cfg, names), cfg)
		relocated, err := m.connectNodeSet(ctx, nodeSet, names, members)
		if err == nil {
			return nodeSet, absent, nil
		}
		nodeSet.CloseConnections()
		if relocated != nil {
			present = withSubstitutes(&cfg, names, absent, m.currentState().moves, relocated)
			continue
		}
		unreachable := nodes.UnreachableNodes(err)
		if len(unreachable) == 0 || ctx.Err() != nil {
			return nil, absent, err
		}
		for _, name := range names {
			if why, ok := unreachable[name]; ok {
				absent = append(absent, absentNode{name, why})
			}
		}
	}
}

// connectNodeSet connects a NodeSet to its members. If a member's address changes meanwhile, it stops, and relocated
// has the present addresses: a node that was restarted joins with a new address before gossip has missed the old
// process.
func (m *members) connectNodeSet(ctx context.Context, nodeSet *nodes.NodeSet, names []string,
	members []cluster.Member) (relocated map[string]cluster.Member, err error) {
	within, cancel := context.WithTimeout(ctx, m.timeoutFor(answerTimeout))
	turnedUp := func(present map[string]cluster.Member) bool {
		return slices.ContainsFunc(members, func(m cluster.Member) bool {
			now, there := present[m.Name]
			return there && now.Meta.GRPCAddr != m.Meta.GRPCAddr
		})
	}
	var look sync.WaitGroup
	look.Go(func() {
		if present := m.cfg.Members.WaitUntil(within, turnedUp); turnedUp(present) {
			relocated = present
		}
		cancel()
	})
	err = nodeSet.Connect(within, names, members)
	cancel()
	look.Wait()
	if err == nil {
		return nil, nil
	}
	return relocated, err
}

// answerTimeout bounds how long a node that has joined may take for its first answer: its service runs before it joins.
const answerTimeout = 8 * time.Second

// addUnjoined appends the members that are not present to absent, with the reason of each.
func (m *members) addUnjoined(absent []absentNode, names []string, present map[string]cluster.Member) []absentNode {
	for _, name := range names {
		if _, there := present[name]; !there && !isAbsent(absent, name) {
			absent = append(absent, absentNode{name, m.absentReason(name)})
		}
	}
	return absent
}

func isAbsent(absent []absentNode, name string) bool {
	return slices.ContainsFunc(absent, func(a absentNode) bool { return a.Name == name })
}

// nodeSetOptions are the options of the NodeSet for a configuration. Without tagnet-node the first node has the
// scheduler.
func (m *members) nodeSetOptions(cfg *config.Completed, names []string) nodes.Options {
	on := cfg.TagnetNode
	switch {
	case m.cfg.LocalScheduler && on == "":
		on = ""
	case on == "":
		on = names[0]
	}
	return nodes.Options{
		Identity:     m.cfg.Identity,
		Host:         m.cfg.Host,
		TagnetPort:   m.cfg.TagnetPort,
		TagnetNode:   on,
		Version:      m.cfg.Version,
		Term:         m.cfg.Term,
		ReadyTimeout: m.cfg.ReadyTimeout,
		MinTimeout:   m.cfg.MinTimeout,
		AddressOf:    func(node string) string { return m.cfg.Members.ByName()[node].Meta.GRPCAddr },
		OnLost:       m.onLost,
		SpawnsNodes:  m.cfg.Spawner != nil,
		Log:          m.log,
	}
}

// awaitMembers waits until the named members have joined, except those that are absent for a known reason.
func (m *members) awaitMembers(ctx context.Context, names []string, absent []absentNode,
	until time.Time) map[string]cluster.Member {
	due := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return isAbsent(absent, name) })
	return m.awaitJoined(ctx, due, until, func(there map[string]cluster.Member) bool {
		return len(m.addUnjoined(absent, names, there)) == len(absent)
	})
}

// awaitNodes waits for the nodes that a configuration wants: after a restart of the control they join its cluster again
// within seconds.
func (m *members) awaitNodes(ctx context.Context, cfg config.Completed, until time.Time) map[string]cluster.Member {
	if names := cfg.MemberNames(); names != nil {
		return m.awaitMembers(ctx, names, nil, until)
	}
	return m.awaitJoined(ctx, wantedProcessNames(&cfg), until, func(there map[string]cluster.Member) bool {
		_, err := layOut(&cfg, there)
		return err == nil
	})
}

// awaitJoined starts processes for the due nodes and waits until enough nodes have joined. It returns earlier if time
// is up, or if a process that it waits for has ended.
func (m *members) awaitJoined(ctx context.Context, due []string, until time.Time,
	enough func(map[string]cluster.Member) bool) map[string]cluster.Member {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	m.spawn(slices.Concat(due, m.cfg.SpawnedSpares))
	ctx, end := m.cancelOnProcessEnd(ctx, due)
	defer end()
	look := time.NewTicker(memberPollInterval) // a process that was restarted at its old address changes no member
	defer look.Stop()
	for {
		changed := m.cfg.Members.MembersChanged()
		there := m.livingMembers(m.cfg.Members.ByName())
		if enough(there) {
			return there
		}
		select {
		case <-changed:
		case <-look.C:
		case <-ctx.Done():
			return there
		}
	}
}

// memberPollInterval is how often awaitJoined looks whether a process has been restarted.
const memberPollInterval = 200 * time.Millisecond

// livingMembers returns the members without those whose process is known to have ended; gossip finds that out only
// later. A new process of the same name is a member: it has another address, or answers at the same one.
func (m *members) livingMembers(present map[string]cluster.Member) map[string]cluster.Member {
	nodeSet := m.currentState().nodeSet
	if nodeSet == nil {
		return present
	}
	there := maps.Clone(present)
	maps.DeleteFunc(there, func(name string, m cluster.Member) bool { return nodeSet.ProcessEnded(name, m.Meta.GRPCAddr) })
	return there
}

// joinDeadline is until when the step under way waits for members: the deadline of its command, or joinTimeout from now
// if no command began the step.
func (m *members) joinDeadline() time.Time {
	if until := m.currentState().pendingCommand.joinDeadline; !until.IsZero() {
		return until
	}
	return time.Now().Add(m.joinTimeout())
}

// allPresent says that every node of the set is present, by its watch and by gossip.
func (m *members) allPresent(nodeSet *nodes.NodeSet) bool {
	there := cluster.UnitNames(m.cfg.Members.ByName())
	return nodeSet != nil && nodeSet.AllPresent() && !slices.ContainsFunc(nodeSet.Processes(),
		func(name string) bool { return !slices.Contains(there, name) })
}

// maySelectMembers refuses a configure, or a start that has to configure, if nodes are absent that the loss policies do
// not tolerate. This is a refusal and no fault.
func (m *members) maySelectMembers(ctx context.Context, c fsm.Command, state fsm.State, until time.Time) error {
	now := m.currentState()
	l, absent := now.loadedConfig, now.excludedNodes()
	if l == nil || l.names == nil || c == fsm.Start && !m.mustConfigure() {
		return nil
	}
	present := withSubstitutes(&l.cfg, l.names, absent, m.currentState().moves,
		m.awaitMembers(ctx, l.names, absent, until))
	absent = m.addUnjoined(absent, l.names, present)
	if _, _, err := selectMembers(l.cfg, l.names, absent); err != nil {
		return preconditionError(state, c.String(), err.Error())
	}
	return nil
}

// mustConfigure says that start has to configure first: the nodes have given up their links, a node was lost, or other
// nodes are to take part.
func (m *members) mustConfigure() bool {
	nodeSet := m.currentState().nodeSet
	return !m.allPresent(nodeSet) || !nodeSet.Linked()
}

// configureNodes takes the participants to Ready.
func (m *members) configureNodes(ctx context.Context) error {
	now := m.currentState()
	m.saveState()
	if err := now.nodeSet.Configure(ctx, now.loadedConfig.cfg.RunNumber); err != nil {
		return now.nodeSet.FaultOf(err, "while configuring")
	}
	m.saveState()
	if err := m.clearDegraded(); err != nil {
		return err
	}
	for _, a := range now.loadedConfig.absent {
		if err := m.runner.Degrade(fsm.Cause{Component: a.Name, What: a.Name + " takes no part: " + a.Why}); err != nil {
			return err
		}
	}
	return nil
}

// clearNodes brings the nodes to NotReady, without links: the work of reset and recover, and the beginning of a start
// that has to configure.
func (m *members) clearNodes(ctx context.Context) error {
	defer m.saveState()
	nodeSet := m.currentState().nodeSet
	if nodeSet == nil {
		return nil // load has failed: configure tries again to find the nodes
	}
	if err := nodeSet.Clear(ctx); err != nil {
		m.log.Warn("not every node has come to rest", "err", err)
	}
	return nil
}

func (m *members) unloadNodes(ctx context.Context) error {
	nodeSet := m.currentState().nodeSet
	if nodeSet != nil {
		within, cancel := context.WithTimeout(ctx, m.timeoutFor(unloadTimeout))
		if err := nodeSet.Unload(within); err != nil {
			m.log.Warn("not every node was let go", "err", err) // the next load takes it to NotReady from any state
		}
		cancel()
		nodeSet.CloseConnections()
	}
	m.updateState(func(s *partitionState) { s.nodeSet, s.loadedConfig, s.excluded, s.moves = nil, nil, nil, nil })
	m.saveState()
	return nil
}

// unloadTimeout bounds how long nodes may take to go through Unloading; a sound one takes milliseconds.
const unloadTimeout = 5 * time.Second

// A Spawner starts and ends node processes for this control. See package spawn.
type Spawner interface {
	// Spawn starts the named processes, whose nodes join the cluster at the given address. It calls ended, from any
	// goroutine, for each process that ends without Stop.
	Spawn(processes []string, join string, ended func(process, how string)) error
	// Stop ends all processes and waits for their ends.
	Stop()
}

// spawnedProcesses are the processes that this control has started, by name: see package nodename.
type spawnedProcesses struct {
	running        map[string]bool
	endReasons     map[string]string // how processes have ended, without those that were started again
	nextProcessEnd chan struct{}     // closed when the next process ends
}

// endReason is how the process of a node has ended, which this control has started; empty: it has not. mu is held.
func (p *spawnedProcesses) endReason(node string) string {
	return p.endReasons[nodename.ProcessOf(node)]
}

// spawn starts the processes of these nodes that do not run, if this control has a Spawner. A process that cannot be
// started counts as ended.
func (m *members) spawn(names []string) {
	if m.cfg.Spawner == nil {
		return
	}
	m.mu.Lock()
	var missing []string
	for _, name := range names {
		if process := nodename.ProcessOf(name); !m.spawned.running[process] {
			missing = append(missing, process)
			m.spawned.running[process] = true
			delete(m.spawned.endReasons, process)
		}
	}
	m.mu.Unlock()
	for _, process := range missing {
		if err := m.cfg.Spawner.Spawn([]string{process}, m.cfg.Members.Addr().String(), m.noteProcessEnd); err != nil {
			m.noteProcessEnd(process, "could not be started: "+err.Error())
		}
	}
}

// hasEnded tells whether this control has started the process of a node, and the process has ended.
func (m *members) hasEnded(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.spawned.endReason(name) != ""
}

// noteProcessEnd is called when a process of the Spawner ends without Stop, for example because it crashed.
func (m *members) noteProcessEnd(process, how string) {
	m.mu.Lock()
	delete(m.spawned.running, process)
	m.spawned.endReasons[process] = how
	close(m.spawned.nextProcessEnd)
	m.spawned.nextProcessEnd = make(chan struct{})
	m.mu.Unlock()
	m.publishf(severityError, "fault", process, "the process of %s %s", process, how)
	if nodeSet := m.currentState().nodeSet; nodeSet != nil {
		nodeSet.ObserveProcessEnd(process, how)
	}
}

// cancelOnProcessEnd returns a context that is canceled, too, when a process that this control started for one of the
// names ends or has ended: that node will not join.
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
			if slices.ContainsFunc(names, func(name string) bool { return slices.Contains(ended, nodename.ProcessOf(name)) }) {
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

// absentReason is why a member is not present: a clause.
func (m *members) absentReason(name string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if how := m.spawned.endReason(name); how != "" {
		return "its process " + how
	}
	return notJoinedReason
}

// crashFault is the fault of the first of these members whose process has ended; nil if none has.
func (m *members) crashFault(names []string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range names {
		if how := m.spawned.endReason(name); how != "" {
			return &fault.Error{Fault: fault.SeenByControl(name, fault.SubsystemProcess, "its process "+how)}
		}
	}
	return nil
}

// notJoinedReason is the absentReason of a member without a process of this control.
const notJoinedReason = "it has not joined"

// wantedProcessNames are the names of the nodes whose processes the Spawner starts.
func wantedProcessNames(cfg *config.Completed) []string {
	if names := cfg.MemberNames(); names != nil {
		return names
	}
	var names []string
	for _, r := range cfg.Roles() {
		names = append(names, r.Name)
	}
	return names
}

// absentNode is a member that takes no part, with the reason.
type absentNode struct {
	Name string
	Why  string // a clause: "it was excluded", "it has not joined"
}

// A tooFewUnitsError says that fewer units are present than the loss policies ask for.
type tooFewUnitsError struct {
	Absent  []absentNode
	Problem config.Problem
}

func (e *tooFewUnitsError) Error() string { return e.Unwrap().Error() }

// Unwrap returns the error as a problem of the configuration: with another policy for losses the run could begin.
func (e *tooFewUnitsError) Unwrap() error {
	return &config.InvalidError{Problems: []config.Problem{e.Problem}}
}

// asFault is the error as a fault of the absent nodes.
func (e *tooFewUnitsError) asFault() *fault.Error {
	var names, why []string
	for _, a := range e.Absent {
		names, why = append(names, a.Name), append(why, a.Name+": "+a.Why)
	}
	return &fault.Error{Fault: fault.Fault{
		Component: strings.Join(names, ", "),
		What:      "no run can begin without it: " + e.Problem.Reason,
		Evidence:  strings.Join(why, "; "),
		Advice:    absentAdvice,
	}}
}

// absentAdvice is the advice of asFault.
const absentAdvice = "Start a process for each that is absent, or include it again; or load a policy that does " +
	"without it."

// selectMembers returns the configuration for the members that are not absent, with their names, or a
// *tooFewUnitsError if the loss policies do not tolerate the absent ones. names are all members, in the order of ranks.
func selectMembers(c config.Completed, names []string, absent []absentNode) (config.Completed, []string, error) {
	if len(absent) == 0 {
		return c, names, nil
	}
	out := map[string]string{}
	for _, a := range absent {
		out[a.Name] = a.Why
	}
	readout, builder := c.LossPolicies()
	var there []string
	rus, bus := 0, 0
	for rank, role := range c.Roles() {
		if out[names[rank]] != "" {
			continue
		}
		there = append(there, names[rank])
		if role.RU != config.NoUnit {
			rus++
		}
		if role.BU != config.NoUnit {
			bus++
		}
	}
	why := make([]string, 0, len(absent))
	for _, a := range absent {
		why = append(why, a.Name+": "+a.Why)
	}
	switch {
	case rus < c.RUs && !readout.Tolerates(rus):
		return c, nil, &tooFewUnitsError{absent, config.Problem{Key: "readout-loss", Reason: fmt.Sprintf(
			"%d of %d readout units are there, and the policy is %s (%s)", rus, c.RUs, readout, strings.Join(why, "; "))}}
	case bus < c.BUs && !builder.Tolerates(bus):
		return c, nil, &tooFewUnitsError{absent, config.Problem{Key: "builder-loss", Reason: fmt.Sprintf(
			"%d of %d builder units are there, and the policy is %s (%s)", bus, c.BUs, builder, strings.Join(why, "; "))}}
	}
	less := c.Without(func(rank int) bool { return out[names[rank]] != "" })
	less.Members = strings.Join(there, ",")
	less.ReadoutLoss, less.BuilderLoss = rewritePolicy(c.ReadoutLoss, readout, rus), rewritePolicy(c.BuilderLoss, builder,
		bus)
	if less.TagnetNode != "" && !slices.Contains(there, less.TagnetNode) {
		less.TagnetNode = ""
	}
	if less.DecisionNode != "" && !slices.Contains(there, less.DecisionNode) {
		less.DecisionNode, less.DecisionTimeout, less.DecisionOutput = "", 0, ""
	}
	fewer, err := compose(less, "", nil)
	if err != nil {
		return c, nil, fmt.Errorf("without %s: %w", strings.Join(why, "; "), err)
	}
	return fewer, there, nil
}

// rewritePolicy is a policy text for fewer units: with at-least, the same number must be present.
func rewritePolicy(text string, l config.LossPolicy, units int) string {
	if strings.HasPrefix(text, "at-least") {
		return fmt.Sprintf("at-least %d of %d", l.MinUnits, units)
	}
	return text
}
