package control

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"ringlet/builderunit/recording"
	"ringlet/internal/certs"
	"ringlet/internal/cluster"
	"ringlet/internal/config"
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
	read := r.readBack(ctx, func(ctx context.Context) []answer { return r.lateReaders(ctx, l.Names) }, l.wanted())
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
func (l *Late) wanted() (list []wanted) {
	built := map[string]uint64{}
	for _, b := range l.Report.Builders {
		built[b.Node] = b.MEPs
	}
	for rank, role := range l.Configuration.Roles() {
		if role.BU != config.None && rank < len(l.Names) {
			list = append(list, wanted{l.Names[rank], uint32(role.BU), built[l.Names[rank]]})
		}
	}
	return list
}

// Builders are the nodes with a builder unit, of names in the order of ranks.
func Builders(cfg *config.Config, names []string) (list []string) {
	for rank, role := range cfg.Roles() {
		if role.BU != config.None && rank < len(names) {
			list = append(list, names[rank])
		}
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
	list := make([]answer, len(r.nodes))
	var wg sync.WaitGroup
	for i, n := range r.nodes {
		wg.Go(func() {
			list[i] = answer{by: n, name: n.name}
			list[i].at, list[i].err = r.ask(ctx, n, true, nil)
		})
	}
	wg.Wait()
	for _, name := range names {
		if !slices.ContainsFunc(list, func(a answer) bool { return a.name == name }) {
			list = append(list, answer{name: name, err: errors.New("it has not joined")})
		}
	}
	return append(list, r.alone(ctx)...)
}
