package partition

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"ringlet/ecs/partition/nodes"
	"ringlet/node/cluster"
	"ringlet/node/config"
)

// resolveMembers finds what a configuration leaves open: who its members are, and what its input needs.
func (p *Partition) resolveMembers(ctx context.Context) (loadedConfig, error) {
	l := *p.currentState().loadedConfig
	if l.names != nil {
		return l, nil
	}
	if !l.prepared {
		if err := nodes.Prepare(ctx, &l.cfg, p.cfg.AllowedInputs); err != nil {
			return l, err
		}
	}
	names, err := p.chooseMembers(ctx, &l.cfg)
	if err != nil {
		return l, err
	}
	l.names = names
	p.updateState(func(s *partitionState) { s.loadedConfig = &l })
	return l, nil
}

// chooseMembers are the members of a configuration: those it names, or the first by name that have joined.
func (p *Partition) chooseMembers(ctx context.Context, cfg *config.Config) ([]string, error) {
	if names := cfg.MemberNames(); names != nil {
		return names, nil
	}
	names := cluster.UnitNames(p.awaitNodes(ctx, *cfg, p.joinDeadline()))
	if len(names) < cfg.Nodes {
		if err := p.crashFault(wantedProcessNames(cfg)); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("%d nodes are wanted, and only %d have joined at %s: %s",
			cfg.Nodes, len(names), p.cfg.Members.Addr(), strings.Join(names, ", "))
	}
	return names[:cfg.Nodes], nil
}

// participants are those who take part now, by a configuration for them, as far as is known.
type participants struct {
	cfg    config.Config
	names  []string
	absent []absentNode
}

// selectParticipants says who takes part, if the policies tolerate it.
func (p *Partition) selectParticipants(l *loadedConfig, absent []absentNode,
	present map[string]cluster.Member) (participants, error) {
	absent = p.addUnjoined(absent, l.names, present)
	cfg, names, err := selectMembers(l.cfg, l.names, absent)
	return participants{cfg, names, absent}, err
}

// crewMatches says whether a set of nodes is those who take part, and every node of it is there: configure needs no
// other.
func (p *Partition) crewMatches(crew *nodes.Crew, want participants) bool {
	if !p.allPresent(crew) || !slices.Equal(crew.Names(), want.names) {
		return false
	}
	was := crew.Configuration()
	was.RunNumber, want.cfg.RunNumber = 0, 0
	return was == want.cfg
}

// loadMembers decides who takes part from now on, connects to them if they are others than before, and takes them to
// NotReady.
func (p *Partition) loadMembers(ctx context.Context) error {
	l, err := p.resolveMembers(ctx)
	if err != nil {
		return err
	}
	before := p.currentState()
	old, absent := before.crew, before.excludedNodes()
	present := p.awaitMembers(ctx, l.names, absent, p.joinDeadline())
	now, err := p.selectParticipants(&l, absent, present)
	if err != nil {
		return err
	}
	if p.crewMatches(old, now) && old.AllInNotReady(ctx) {
		return nil
	}
	crew, absent, err := p.connectMembers(ctx, &l, present, now.absent)
	if err != nil {
		return err
	}
	if old != nil {
		old.CloseConnections() // not before there is another: whoever interrupts this has somebody to speak with
	}
	p.updateState(func(s *partitionState) {
		s.crew, s.loadedConfig = crew, &loadedConfig{
			original: l.original,
			cfg:      l.cfg,
			names:    l.names,
			absent:   absent,
		}
	})
	cfg := crew.Configuration()
	if err := cfg.CheckNodes(crew.Facts()); err != nil {
		return err
	}
	return crew.Load(ctx)
}

// connectMembers makes the set of nodes of those who are present and answer. Gossip takes seconds to miss a node: who
// does not answer is absent, too.
func (p *Partition) connectMembers(ctx context.Context, l *loadedConfig, present map[string]cluster.Member,
	absent []absentNode) (*nodes.Crew, []absentNode, error) {
	for {
		cfg, names, err := selectMembers(l.cfg, l.names, absent)
		if err != nil {
			return nil, absent, err
		}
		members := make([]cluster.Member, len(names))
		for i, name := range names {
			members[i] = present[name]
		}
		crew := nodes.NewCrew(p.crewOptions(&cfg, names), cfg)
		relocated, err := p.connectCrew(ctx, crew, members)
		if err == nil {
			return crew, absent, nil
		}
		crew.CloseConnections()
		if relocated != nil {
			present = relocated
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

// connectCrew connects to members where they are, or tells where they are now if one of them turns up elsewhere
// meanwhile: a node that was started anew joins before the gossip has missed the one that was there.
func (p *Partition) connectCrew(ctx context.Context, crew *nodes.Crew,
	members []cluster.Member) (relocated map[string]cluster.Member, err error) {
	within, cancel := context.WithTimeout(ctx, p.timeoutFor(answerTimeout))
	turnedUp := func(present map[string]cluster.Member) bool {
		return slices.ContainsFunc(members, func(m cluster.Member) bool {
			now, there := present[m.Name]
			return there && now.Meta.GRPCAddr != m.Meta.GRPCAddr
		})
	}
	var look sync.WaitGroup
	look.Go(func() {
		if present := p.cfg.Members.WaitUntil(within, turnedUp); turnedUp(present) {
			relocated = present
		}
		cancel()
	})
	err = crew.Connect(within, members)
	cancel()
	look.Wait()
	if err == nil {
		return nil, nil
	}
	return relocated, err
}

// answerTimeout is how long a node that has joined may take to answer for the first time: its service is up before it
// joins.
const answerTimeout = 8 * time.Second

// addUnjoined adds the members that are not present to those who are known to be absent.
func (p *Partition) addUnjoined(absent []absentNode, names []string, present map[string]cluster.Member) []absentNode {
	for _, name := range names {
		if _, there := present[name]; !there && !isAbsent(absent, name) {
			absent = append(absent, absentNode{name, p.absentReason(name)})
		}
	}
	return absent
}

func isAbsent(absent []absentNode, name string) bool {
	return slices.ContainsFunc(absent, func(a absentNode) bool { return a.Name == name })
}

// crewOptions of the set of nodes of a configuration.
func (p *Partition) crewOptions(cfg *config.Config, names []string) nodes.Options {
	on := cfg.TagnetNode
	switch {
	case p.cfg.LocalScheduler:
		on = ""
	case on == "":
		on = names[0]
	}
	return nodes.Options{
		Identity:     p.cfg.Identity,
		Host:         p.cfg.Host,
		TagnetPort:   p.cfg.TagnetPort,
		TagnetNode:   on,
		Version:      p.cfg.Version,
		Term:         p.cfg.Term,
		ReadyTimeout: p.cfg.ReadyTimeout,
		MinTimeout:   p.cfg.MinTimeout,
		AddressOf:    func(node string) string { return p.cfg.Members.ByName()[node].Meta.GRPCAddr },
		OnLost:       p.noteLoss,
		SpawnsNodes:  p.cfg.Spawner != nil,
		Log:          p.log,
	}
}

// awaitMembers waits until all who should take part have joined.
func (p *Partition) awaitMembers(ctx context.Context, names []string, absent []absentNode,
	until time.Time) map[string]cluster.Member {
	due := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return isAbsent(absent, name) })
	return p.awaitJoined(ctx, due, until, func(there map[string]cluster.Member) bool {
		return len(p.addUnjoined(absent, names, there)) == len(absent)
	})
}

// awaitNodes waits for the nodes that a configuration wants: those of a control that has just come back join it again
// within seconds.
func (p *Partition) awaitNodes(ctx context.Context, cfg config.Config, until time.Time) map[string]cluster.Member {
	if names := cfg.MemberNames(); names != nil {
		return p.awaitMembers(ctx, names, nil, until)
	}
	return p.awaitJoined(ctx, wantedProcessNames(&cfg), until, func(there map[string]cluster.Member) bool {
		return len(cluster.UnitNames(there)) >= cfg.Nodes
	})
}

// awaitJoined waits until enough are there, and no longer than somebody may still join: processes for those who are due
// are started.
func (p *Partition) awaitJoined(ctx context.Context, due []string, until time.Time,
	enough func(map[string]cluster.Member) bool) map[string]cluster.Member {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	p.spawn(due)
	ctx, end := p.cancelOnProcessEnd(ctx, due)
	defer end()
	look := time.NewTicker(memberPollInterval) // one that was started again where it was changes no member
	defer look.Stop()
	for {
		changed := p.cfg.Members.MembersChanged()
		there := p.livingMembers(p.cfg.Members.ByName())
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

// memberPollInterval is how often it is looked whether a process has been started again.
const memberPollInterval = 200 * time.Millisecond

// livingMembers are the members less those whose process is known to have ended, which the gossip misses later: another
// one has another address, or answers at that one.
func (p *Partition) livingMembers(present map[string]cluster.Member) map[string]cluster.Member {
	crew := p.currentState().crew
	if crew == nil {
		return present
	}
	there := maps.Clone(present)
	maps.DeleteFunc(there, func(name string, m cluster.Member) bool { return crew.ProcessEnded(name, m.Meta.GRPCAddr) })
	return there
}

// joinDeadline is until when the step under way waits for members: as long as its command already does, or from now on
// where nobody gave one.
func (p *Partition) joinDeadline() time.Time {
	if until := p.currentState().pendingCommand.joinDeadline; !until.IsZero() {
		return until
	}
	return time.Now().Add(p.joinTimeout())
}

// joinTimeout is how long a command waits for members: those that this control starts come up within its ReadyTimeout.
func (p *Partition) joinTimeout() time.Duration {
	if p.cfg.Spawner != nil {
		return p.cfg.ReadyTimeout
	}
	return cmp.Or(p.cfg.JoinTimeout, defaultJoinTimeout)
}

// defaultJoinTimeout is how long a command waits for members that are not there: a node that was just started takes
// less than a second.
const defaultJoinTimeout = 5 * time.Second

// allPresent says that every node of the set is there, as far as watches and gossip know.
func (p *Partition) allPresent(crew *nodes.Crew) bool {
	there := cluster.UnitNames(p.cfg.Members.ByName())
	return crew != nil && crew.AllPresent() && !slices.ContainsFunc(crew.Names(),
		func(name string) bool { return !slices.Contains(there, name) })
}
