package nodes

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"ringlet/builderunit/recording"
	"ringlet/node/certs"
	"ringlet/node/cluster"
	"ringlet/node/config"
	"ringlet/node/fsm"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/tagnet"
)

// Late is a run that is over and whose output nobody could read as a whole then: nodes were gone, and their files with
// them.
type Late struct {
	Identity *certs.Identity
	Term     tagnet.Term
	Log      *slog.Logger // nil: slog.Default

	Configuration config.Config // of the run, with its number
	Key           []byte        // of the run
	Names         []string      // its nodes, in the order of ranks
	Unread        []string      // those of them that were not read
	Report        *Report       // what it came to so far
	Thorough      bool          // read even where no answer promises anything new: others are there than before
}

// Complete reads the output once more, where members of the cluster, which are there now, and this process can. Where
// that tells of a node that was not read before, and of all that were, the report is completed with what is in the
// files, and the verdict in every manifest. It returns nil if there is nothing new.
func (l *Late) Complete(ctx context.Context, members map[string]cluster.Member) (*Report, error) {
	if len(l.Key) != len(recording.Key{}) {
		return nil, errors.New("the record does not have the key of the run, by which its files are known")
	}
	c := NewCrew(Options{Identity: l.Identity, Term: l.Term, Log: l.Log}, l.Configuration)
	defer c.Release()
	for name, m := range members {
		if err := c.dial(&nodev1.Member{Name: name, GrpcAddress: m.Meta.GRPCAddr}); err != nil {
			return nil, err
		}
	}
	r := c.NewRun(l.Configuration.RunNumber)
	r.key = recording.Key(l.Key)
	l.retire(ctx, r)
	answers := r.lateReaders(ctx, l.Names)
	if !l.Thorough && !l.promising(answers) {
		return nil, ctx.Err()
	}
	read := r.readBack(ctx, func(context.Context) []answer { return answers }, l.wanted())
	if ctx.Err() != nil || !fewer(read.unread, l.Unread) {
		return nil, ctx.Err()
	}
	l.Report.completed(&r.cfg, read)
	r.conclude(ctx, read, l.Report)
	if !fewer(l.Report.Recorded.Unread, l.Unread) { // its manifest did not take it: the next time does both
		return nil, ctx.Err()
	}
	return l.Report, nil
}

// retire has the nodes that were not read, and go on with the run, drop it: they stood still when it lost them, and
// when it ended. What they hold open nobody can read.
func (l *Late) retire(ctx context.Context, r *Run) {
	ctx, cancel := context.WithTimeout(ctx, goneTime)
	defer cancel()
	_ = r.every(func(n *member) error { // who does not answer is asked again by the next attempt
		if !slices.Contains(l.Unread, n.name) {
			return nil
		}
		rep, err := n.client.Report(ctx, &nodev1.ReportRequest{Term: n.term})
		at := rep.GetStatus().GetState()
		if rep.GetRun() == l.Configuration.RunNumber && (at == fsm.Running.String() || at == fsm.Paused.String()) {
			r.retire(n)
		}
		return err
	})
}

// promising says whether answers may lead to more than was read before: a node that was not read has the run now, or
// says that it has none and has told of no MEP; or there are more directories. Files may be large, and what is known of
// them need not be read again to find that nothing is new.
func (l *Late) promising(answers []answer) bool {
	told := map[string]uint64{}
	for _, w := range l.wanted() {
		told[w.node] = w.built
	}
	directories := map[string]bool{}
	for _, a := range answers {
		if a.err != nil {
			continue
		}
		has := a.at != nil && a.at.id != ""
		if slices.Contains(l.Unread, a.name) && (has || told[a.name] == 0) {
			return true
		}
		if has {
			directories[a.at.id] = true
		}
	}
	before := l.Report.Recorded
	return before == nil && len(directories) > 0 || before != nil && len(directories) > len(before.Hosts)
}

// completed closes the accounts with what was read since.
func (r *Report) completed(cfg *config.Config, read *recorded) {
	before := r.Recorded
	r.takeOutput(cfg, read)
	if before != nil {
		r.Recorded.Recovered = append(slices.Clone(before.Recovered), r.Recorded.Recovered...)
	}
	r.judgeOutput()
}

// fewer says that now names some of those before, not all, and nobody else.
func fewer(now, before []string) bool {
	other := func(n string) bool { return !slices.Contains(before, n) }
	return len(now) < len(before) && !slices.ContainsFunc(now, other)
}

// wanted are the builder units of the run.
func (l *Late) wanted() []wanted {
	built := map[string]uint64{}
	for _, b := range l.Report.Builders {
		built[b.Node] = b.MEPs
	}
	return wantedOf(&l.Configuration, l.Names, built)
}

// wantedOf are the builder units of a configuration whose nodes have these names, in the order of ranks, and have built
// so much.
func wantedOf(cfg *config.Config, names []string, built map[string]uint64) (list []wanted) {
	for rank, role := range cfg.Roles() {
		if role.BU != config.None && rank < len(names) {
			list = append(list, wanted{names[rank], uint32(role.BU), built[names[rank]]})
		}
	}
	return list
}

// Builders are the nodes with a builder unit, of names in the order of ranks.
func Builders(cfg *config.Config, names []string) (list []string) {
	for _, w := range wantedOf(cfg, names, nil) {
		list = append(list, w.node)
	}
	return list
}

// lateTime is how long nodes may take to say where they have the output of a run that is over: one that comes back may
// be busy.
const lateTime = 15 * time.Second

// lateReaders asks every node that is there, and this process. Nodes of the run that are not there are silent.
func (r *Run) lateReaders(ctx context.Context, names []string) []answer {
	ctx, cancel := context.WithTimeout(ctx, lateTime)
	defer cancel()
	list := slices.Concat(gather(r.nodes, func(n *member) []answer { return r.where(ctx, n.name, n) })...)
	for _, name := range names {
		if !slices.ContainsFunc(list, func(a answer) bool { return a.name == name }) {
			for i := range r.cfg.FileOutputs() {
				list = append(list, answer{output: i, name: name, err: errors.New("it has not joined")})
			}
		}
	}
	return append(list, r.where(ctx, "", here{})...)
}
