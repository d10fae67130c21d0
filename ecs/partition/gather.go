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

// resolve finds what a configuration leaves open: who its members are, and what its input needs.
func (p *Partition) resolve(ctx context.Context) (loaded, error) {
	l := *p.now().loaded
	if l.names != nil {
		return l, nil
	}
	if !l.prepared {
		if err := nodes.Prepare(ctx, &l.cfg, p.cfg.Inputs); err != nil {
			return l, err
		}
	}
	names, err := p.names(ctx, &l.cfg)
	if err != nil {
		return l, err
	}
	l.names = names
	p.set(func(s *standing) { s.loaded = &l })
	return l, nil
}

// names are the members of a configuration: those it names, or the first by name that have joined.
func (p *Partition) names(ctx context.Context, cfg *config.Config) ([]string, error) {
	if names := cfg.MemberNames(); names != nil {
		return names, nil
	}
	names := cluster.Units(p.awaitNodes(ctx, *cfg, p.awaits()))
	if len(names) < cfg.Nodes {
		if err := p.crashed(wanted(cfg)); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("%d nodes are wanted, and only %d have joined at %s: %s",
			cfg.Nodes, len(names), p.cfg.Members.Addr(), strings.Join(names, ", "))
	}
	return names[:cfg.Nodes], nil
}

// takers are those who take part now, by a configuration for them, as far as is known.
type takers struct {
	cfg    config.Config
	names  []string
	absent []absentNode
}

// decide says who takes part, if the policies bear it.
func (p *Partition) decide(l *loaded, absent []absentNode, present map[string]cluster.Member) (takers, error) {
	absent = p.withUnjoined(absent, l.names, present)
	cfg, names, err := muster(l.cfg, l.names, absent)
	return takers{cfg, names, absent}, err
}

// keeps says whether a crew is those who take part, and every node of it is there: configure needs no other.
func (p *Partition) keeps(crew *nodes.Crew, of takers) bool {
	if !p.whole(crew) || !slices.Equal(crew.Names(), of.names) {
		return false
	}
	was := crew.Configuration()
	was.RunNumber, of.cfg.RunNumber = 0, 0
	return was == of.cfg
}

// muster decides who takes part from now on, meets them if they are others than before, and takes them to NotReady.
func (p *Partition) muster(ctx context.Context) error {
	l, err := p.resolve(ctx)
	if err != nil {
		return err
	}
	before := p.now()
	old, absent := before.crew, before.absent()
	present := p.awaitMembers(ctx, l.names, absent, p.awaits())
	now, err := p.decide(&l, absent, present)
	if err != nil {
		return err
	}
	if p.keeps(old, now) && old.AtRest(ctx) {
		return nil
	}
	crew, absent, err := p.meet(ctx, &l, present, now.absent)
	if err != nil {
		return err
	}
	if old != nil {
		old.Release() // not before there is another: whoever interrupts this has somebody to speak with
	}
	p.set(func(s *standing) {
		s.crew, s.loaded = crew, &loaded{
			asked:  l.asked,
			cfg:    l.cfg,
			names:  l.names,
			absent: absent,
		}
	})
	cfg := crew.Configuration()
	if err := cfg.Check(crew.Facts()); err != nil {
		return err
	}
	return crew.Load(ctx)
}

// meet makes the crew of those who are present and answer. Gossip takes seconds to miss a node: who does not answer is
// absent, too.
func (p *Partition) meet(ctx context.Context, l *loaded, present map[string]cluster.Member,
	absent []absentNode) (*nodes.Crew, []absentNode, error) {
	for {
		cfg, names, err := muster(l.cfg, l.names, absent)
		if err != nil {
			return nil, absent, err
		}
		members := make([]cluster.Member, len(names))
		for i, name := range names {
			members[i] = present[name]
		}
		crew := nodes.NewCrew(p.options(&cfg, names), cfg)
		moved, err := p.meetThose(ctx, crew, members)
		if err == nil {
			return crew, absent, nil
		}
		crew.Release()
		if moved != nil {
			present = moved
			continue
		}
		unmet := nodes.Unmet(err)
		if len(unmet) == 0 || ctx.Err() != nil {
			return nil, absent, err
		}
		for _, name := range names {
			if why, ok := unmet[name]; ok {
				absent = append(absent, absentNode{name, why})
			}
		}
	}
}

// meetThose meets members where they are, or tells where they are now if one of them turns up elsewhere meanwhile: a
// node that was started anew joins before the gossip has missed the one that was there.
func (p *Partition) meetThose(ctx context.Context, crew *nodes.Crew,
	members []cluster.Member) (moved map[string]cluster.Member, err error) {
	within, cancel := context.WithTimeout(ctx, p.within(answerTime))
	turnedUp := func(present map[string]cluster.Member) bool {
		return slices.ContainsFunc(members, func(m cluster.Member) bool {
			now, there := present[m.Name]
			return there && now.Meta.GRPCAddr != m.Meta.GRPCAddr
		})
	}
	var look sync.WaitGroup
	look.Go(func() {
		if present := p.cfg.Members.Until(within, turnedUp); turnedUp(present) {
			moved = present
		}
		cancel()
	})
	err = crew.Meet(within, members)
	cancel()
	look.Wait()
	if err == nil {
		return nil, nil
	}
	return moved, err
}

// answerTime is how long a node that has joined may take to answer for the first time: its service is up before it
// joins.
const answerTime = 8 * time.Second

// withUnjoined adds the members that are not present to those who are known to be absent.
func (p *Partition) withUnjoined(absent []absentNode, names []string, present map[string]cluster.Member) []absentNode {
	for _, name := range names {
		if _, there := present[name]; !there && !isAbsent(absent, name) {
			absent = append(absent, absentNode{name, p.whyAbsent(name)})
		}
	}
	return absent
}

func isAbsent(absent []absentNode, name string) bool {
	return slices.ContainsFunc(absent, func(a absentNode) bool { return a.Name == name })
}

// options of the crew of a configuration.
func (p *Partition) options(cfg *config.Config, names []string) nodes.Options {
	on := cfg.TagnetNode
	switch {
	case p.cfg.Here:
		on = ""
	case on == "":
		on = names[0]
	}
	return nodes.Options{
		Identity:   p.cfg.Identity,
		Host:       p.cfg.Host,
		TagnetPort: p.cfg.TagnetPort,
		TagnetNode: on,
		Version:    p.cfg.Version,
		Term:       p.cfg.Term,
		Patience:   p.cfg.Patience,
		AtLeast:    p.cfg.AtLeast,
		Where:      func(node string) string { return p.cfg.Members.ByName()[node].Meta.GRPCAddr },
		Lost:       p.lost,
		Spawns:     p.cfg.Spawner != nil,
		Log:        p.log,
	}
}

// awaitMembers waits until all who should take part have joined.
func (p *Partition) awaitMembers(ctx context.Context, names []string, absent []absentNode,
	until time.Time) map[string]cluster.Member {
	due := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return isAbsent(absent, name) })
	return p.await(ctx, due, until, func(there map[string]cluster.Member) bool {
		return len(p.withUnjoined(absent, names, there)) == len(absent)
	})
}

// awaitNodes waits for the nodes that a configuration wants: those of a control that has just come back join it again
// within seconds.
func (p *Partition) awaitNodes(ctx context.Context, cfg config.Config, until time.Time) map[string]cluster.Member {
	if names := cfg.MemberNames(); names != nil {
		return p.awaitMembers(ctx, names, nil, until)
	}
	return p.await(ctx, wanted(&cfg), until, func(there map[string]cluster.Member) bool {
		return len(cluster.Units(there)) >= cfg.Nodes
	})
}

// await waits until enough are there, and no longer than somebody may still join: processes for those who are due are
// started.
func (p *Partition) await(ctx context.Context, due []string, until time.Time,
	enough func(map[string]cluster.Member) bool) map[string]cluster.Member {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	p.spawn(due)
	ctx, end := p.untilEnded(ctx, due)
	defer end()
	look := time.NewTicker(lookEvery) // one that was started again where it was changes no member
	defer look.Stop()
	for {
		changed := p.cfg.Members.Changed()
		there := p.alive(p.cfg.Members.ByName())
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

// lookEvery is how often it is looked whether a process has been started again.
const lookEvery = 200 * time.Millisecond

// alive are the members less those whose process is known to have ended, which the gossip misses later: another one has
// another address, or answers at that one.
func (p *Partition) alive(present map[string]cluster.Member) map[string]cluster.Member {
	crew := p.now().crew
	if crew == nil {
		return present
	}
	there := maps.Clone(present)
	maps.DeleteFunc(there, func(name string, m cluster.Member) bool { return crew.Ended(name, m.Meta.GRPCAddr) })
	return there
}

// awaits is until when the step under way waits for members: as long as its command already does, or from now on where
// nobody gave one.
func (p *Partition) awaits() time.Time {
	if until := p.now().asked.awaits; !until.IsZero() {
		return until
	}
	return time.Now().Add(p.joinTime())
}

// joinTime is how long a command waits for members: those that this control starts come up within its patience.
func (p *Partition) joinTime() time.Duration {
	if p.cfg.Spawner != nil {
		return p.cfg.Patience
	}
	return cmp.Or(p.cfg.JoinTime, joinTime)
}

// joinTime is how long a command waits for members that are not there: a node that was just started takes less than a
// second.
const joinTime = 5 * time.Second

// whole says that every node of the crew is there, as far as watches and gossip know.
func (p *Partition) whole(crew *nodes.Crew) bool {
	there := cluster.Units(p.cfg.Members.ByName())
	return crew != nil && crew.Whole() && !slices.ContainsFunc(crew.Names(),
		func(name string) bool { return !slices.Contains(there, name) })
}
