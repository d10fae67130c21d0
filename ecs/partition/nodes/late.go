package nodes

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"ringlet/node/certs"
	"ringlet/node/cluster"
	"ringlet/node/config"
	"ringlet/node/fsm"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/recording"
	"ringlet/tagnet"
)

// LateCompletion is a run that is over and whose output nobody could read as a whole then: nodes were gone, and their
// files with them.
type LateCompletion struct {
	Identity *certs.Identity
	Term     tagnet.Term
	Log      *slog.Logger // nil: slog.Default

	Configuration  config.Completed // of the run, with its number
	Key            []byte           // of the run
	Names          []string         // its nodes, in the order of ranks
	Unread         []string         // those of them that were not read
	Report         *Report          // what it came to so far
	ReadRegardless bool             // read even where no answer promises anything new: others are there than before
}

// Complete reads the output once more, where members of the cluster, which are there now, and this process can. Where
// that tells of a node that was not read before, and of all that were, the report is completed with what is in the
// files, and the verdict in every manifest. It returns nil if there is nothing new.
func (l *LateCompletion) Complete(ctx context.Context, members map[string]cluster.Member) (*Report, error) {
	if len(l.Key) != len(recording.Key{}) {
		return nil, errors.New("the record does not have the key of the run, by which its files are known")
	}
	c := NewNodeSet(Options{Identity: l.Identity, Term: l.Term, Log: l.Log}, l.Configuration)
	defer c.CloseConnections()
	for name, m := range members {
		if err := c.dial(&nodev1.Member{Name: name, GrpcAddress: m.Meta.GRPCAddr}); err != nil {
			return nil, err
		}
	}
	r := &outputs{Run: c.NewRun(l.Configuration.RunNumber)}
	r.key = recording.Key(l.Key)
	l.retire(ctx, r.Run)
	answers := r.locateLateOutputs(ctx, l.Names)
	if !l.ReadRegardless && !l.expectsMore(answers) {
		return nil, ctx.Err()
	}
	read := r.readBack(ctx, func(context.Context) []outputAnswer { return answers }, l.wantedOutputs())
	if ctx.Err() != nil || !isProperSubset(read.unreadNodes, l.Unread) {
		return nil, ctx.Err()
	}
	l.Report.completeWith(&r.cfg, read)
	r.writeVerdicts(ctx, read, l.Report)
	// its manifest did not take it: the next time does both
	if !isProperSubset(l.Report.RecordedOutput.UnreadNodes, l.Unread) {
		return nil, ctx.Err()
	}
	return l.Report, nil
}

// retire has the nodes that were not read, and go on with the run, drop it: they stood still when it lost them, and
// when it ended. What they hold open nobody can read.
func (l *LateCompletion) retire(ctx context.Context, r *Run) {
	ctx, cancel := context.WithTimeout(ctx, lostNodeTimeout)
	defer cancel()
	_ = r.forEach(func(n *member) error { // who does not answer is asked again by the next attempt
		if !slices.Contains(l.Unread, n.name) {
			return nil
		}
		rep, err := n.client.Report(ctx, &nodev1.ReportRequest{Term: n.term})
		at := rep.GetStatus().GetState()
		if rep.GetRun() == l.Configuration.RunNumber && (at == fsm.Running.String() || at == fsm.Paused.String()) {
			r.watch.retire(n)
		}
		return err
	})
}

// expectsMore says whether answers may lead to more than was read before: a node that was not read has the run now, or
// says that it has none and has told of no MEP; or there are more directories. Files may be large, and what is known of
// them need not be read again to find that nothing is new.
func (l *LateCompletion) expectsMore(answers []outputAnswer) bool {
	built := map[string]uint64{}
	for _, w := range l.wantedOutputs() {
		built[w.node] = w.built
	}
	directories := map[string]bool{}
	for _, a := range answers {
		if a.err != nil {
			continue
		}
		hasDirectory := a.directory != nil && a.directory.id != ""
		if slices.Contains(l.Unread, a.name) && (hasDirectory || built[a.name] == 0) {
			return true
		}
		if hasDirectory {
			directories[a.directory.id] = true
		}
	}
	before := l.Report.RecordedOutput
	return before == nil && len(directories) > 0 || before != nil && len(directories) > len(before.Hosts)
}

// completeWith closes the accounts with what was read since.
func (r *Report) completeWith(cfg *config.Completed, read *readBackOutput) {
	before := r.RecordedOutput
	r.fillOutput(cfg, read)
	if before != nil {
		r.RecordedOutput.Recovered = append(slices.Clone(before.Recovered), r.RecordedOutput.Recovered...)
	}
	r.closeAccounts()
}

// isProperSubset says that now names some of those before, not all, and nobody else.
func isProperSubset(now, before []string) bool {
	other := func(n string) bool { return !slices.Contains(before, n) }
	return len(now) < len(before) && !slices.ContainsFunc(now, other)
}

// wantedOutputs are the builder units of the run.
func (l *LateCompletion) wantedOutputs() []wantedOutput {
	built := map[string]uint64{}
	for _, b := range l.Report.Builders {
		built[b.Node] = b.MEPs
	}
	return wantedOutputsOf(&l.Configuration, l.Names, built)
}

// wantedOutputsOf are the builder units of a configuration whose nodes have these names, in the order of ranks, and
// have built so much.
func wantedOutputsOf(cfg *config.Completed, names []string, built map[string]uint64) (list []wantedOutput) {
	for rank, role := range cfg.Roles() {
		if role.BU != config.NoUnit && rank < len(names) {
			list = append(list, wantedOutput{names[rank], uint32(role.BU), built[names[rank]]})
		}
	}
	return list
}

// BuilderNames are the nodes with a builder unit, of names in the order of ranks.
func BuilderNames(cfg *config.Completed, names []string) (list []string) {
	for _, w := range wantedOutputsOf(cfg, names, nil) {
		list = append(list, w.node)
	}
	return list
}

// lateAnswerTimeout is how long nodes may take to say where they have the output of a run that is over: one that comes
// back may be busy.
const lateAnswerTimeout = 15 * time.Second

// locateLateOutputs asks every node that is there, and this process. Nodes of the run that are not there are silent.
func (r *outputs) locateLateOutputs(ctx context.Context, names []string) []outputAnswer {
	ctx, cancel := context.WithTimeout(ctx, lateAnswerTimeout)
	defer cancel()
	list := slices.Concat(requestEach(r.nodes, func(n *member) []outputAnswer {
		return r.locateOutput(ctx, n.name,
			n)
	})...)
	for _, name := range names {
		if !slices.ContainsFunc(list, func(a outputAnswer) bool { return a.name == name }) {
			for i := range r.cfg.FileOutputs() {
				list = append(list, outputAnswer{output: i, name: name, err: errors.New("it has not joined")})
			}
		}
	}
	return append(list, r.locateOutput(ctx, "", localReader{})...)
}
