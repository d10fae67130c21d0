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

// LateCompletion completes the report of a closed run whose output could not be read as a whole, since some nodes were
// gone and their files with them.
type LateCompletion struct {
	Identity *certs.Identity
	Term     tagnet.Term
	Log      *slog.Logger // nil: slog.Default

	Configuration  config.Completed // of the run, with its number
	Key            []byte           // of the run
	Names          []string         // the run's nodes, in the order of ranks
	Unread         []string         // the nodes whose output was not read
	Report         *Report          // of the run so far
	ReadRegardless bool             // read even if expectsMore is false, since the members have changed
}

// Complete reads the output once more, by the present members of the cluster and by this process. If it can now read
// the output of a node in Unread, and still that of all others, it completes the report and the verdict in every
// manifest. It returns nil if there is nothing new.
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
	// a manifest did not take the verdict: the next attempt reads and writes again
	if !isProperSubset(l.Report.RecordedOutput.UnreadNodes, l.Unread) {
		return nil, ctx.Err()
	}
	return l.Report, nil
}

// retire tells nodes in Unread that still work on the run to drop it: such a node hung, was lost to the run, and hung
// until after the run's end. Files that it holds open cannot be read.
func (l *LateCompletion) retire(ctx context.Context, r *Run) {
	ctx, cancel := context.WithTimeout(ctx, lostNodeTimeout)
	defer cancel()
	_ = r.forEach(func(n *member) error { // the next attempt asks a node again that does not answer
		if !slices.Contains(l.Unread, n.name) {
			return nil
		}
		rep, err := n.client.Report(ctx, &nodev1.ReportRequest{Term: n.term})
		at := rep.GetStatus().GetState()
		if rep.GetRun() == l.Configuration.RunNumber && (at == fsm.Running.String() || at == fsm.Paused.String()) {
			r.watch.retireLogged(process{n.name, n.client, n.term})
		}
		return err
	})
}

// expectsMore says whether reading may find more than before: a node in Unread now has a directory of the run, or says
// that it has none and has built no MEP; or there are more directories. Otherwise large files would be read again to
// find nothing new.
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

// completeWith closes the accounts again, with the output that was read now.
func (r *Report) completeWith(cfg *config.Completed, read *readBackOutput) {
	before := r.RecordedOutput
	r.fillOutput(cfg, read)
	if before != nil {
		r.RecordedOutput.Recovered = append(slices.Clone(before.Recovered), r.RecordedOutput.Recovered...)
	}
	r.closeAccounts()
}

// isProperSubset says that now has fewer names than before, and only such that before has.
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

// wantedOutputsOf are the builder units of a configuration. names are those of its nodes, in the order of ranks; built
// is the number of MEPs that each node has built.
func wantedOutputsOf(cfg *config.Completed, names []string, built map[string]uint64) (list []wantedOutput) {
	for rank, role := range cfg.Roles() {
		if role.BU != config.NoUnit && rank < len(names) {
			list = append(list, wantedOutput{names[rank], uint32(role.BU), built[names[rank]]})
		}
	}
	return list
}

// BuilderNames returns the names of nodes that have a builder unit. names are the names of all nodes, in the order of
// ranks.
func BuilderNames(cfg *config.Completed, names []string) (list []string) {
	for _, w := range wantedOutputsOf(cfg, names, nil) {
		list = append(list, w.node)
	}
	return list
}

// lateAnswerTimeout bounds how long nodes may take to say where they have the output of a closed run: a node that has
// just been restarted may be busy.
const lateAnswerTimeout = 15 * time.Second

// locateLateOutputs asks every connected node, and this process, where the output is. Nodes of the run that have not
// joined get an answer with an error.
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
