package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc/status"

	"ringlet/builderunit/recording"
	"ringlet/internal/config"
	"ringlet/internal/node"
	nodev1 "ringlet/proto/ringlet/node/v1"
)

// recorded is what was read back of a run's output, from all hosts.
type recorded struct {
	directories []*directory
	set         *recording.Set // of all directories
	copies      uint64         // MEPs that are there more than once
	found       map[uint32]bool
	problems    []string // sentences
	recovered   []string
}

// directory is one directory of a run, which nodes may share.
type directory struct {
	by       reader
	id       string
	host     string
	path     string
	builders []*nodev1.RecordedBuilder
	set      *recording.Set
}

// reader reads the output on a host: a node there, or this process.
type reader interface {
	readBack(ctx context.Context, cfg config.Config, q *nodev1.RecordedRequest, take func(*nodev1.RecordedResponse) error) error
	conclude(ctx context.Context, cfg config.Config, q *nodev1.ConcludeRequest) error
}

func (m *member) readBack(
	ctx context.Context, cfg config.Config, q *nodev1.RecordedRequest, take func(*nodev1.RecordedResponse) error,
) error {
	q.Configuration, q.Term = cfg.Effective(), m.term
	stream, err := m.client.Recorded(ctx, q)
	for err == nil {
		var one *nodev1.RecordedResponse
		if one, err = stream.Recv(); err == nil {
			err = take(one)
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func (m *member) conclude(ctx context.Context, cfg config.Config, q *nodev1.ConcludeRequest) error {
	q.Configuration, q.Term = cfg.Effective(), m.term
	_, err := m.client.Conclude(ctx, q)
	return err
}

// here is this process, which reads what is on its own host when no node is left there that could.
type here struct{}

func (here) readBack(
	ctx context.Context, cfg config.Config, q *nodev1.RecordedRequest, take func(*nodev1.RecordedResponse) error,
) error {
	return node.ReadBack(ctx, cfg, q, take)
}

func (here) conclude(_ context.Context, cfg config.Config, q *nodev1.ConcludeRequest) error {
	return node.Conclude(cfg, q)
}

// closeTime bounds how long a node may take to close its files when the run is over: what is dirty must reach the disk, and a
// disk may be slow. Those that are late are recovered later, and named.
const closeTime = 5 * time.Minute

// readBack reads what the nodes have recorded: the accounts close with what is there, not with what was meant to be there.
func (r *Run) readBack() *recorded {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	out := &recorded{set: recording.NewSet(r.cfg.Packing), found: map[uint32]bool{}}
	for _, d := range r.directories(ctx, out) {
		if err := r.readDirectory(ctx, d, out); err != nil {
			out.say("the output on host %s at %s cannot be read: %v", d.host, d.path, err)
			continue
		}
		out.directories = append(out.directories, d)
		out.copies += out.set.Union(d.set)
		for _, b := range d.builders {
			out.found[b.GetIndex()] = true
		}
	}
	r.missedBuilders(out)
	return out
}

func (o *recorded) say(format string, args ...any) {
	o.problems = append(o.problems, fmt.Sprintf(format, args...))
}

// directories asks every node where it has written, once it writes there no more. Of nodes that share a directory one is kept.
func (r *Run) directories(ctx context.Context, out *recorded) []*directory {
	told := make([]*directory, len(r.nodes))
	errs := make([]error, len(r.nodes))
	var wg sync.WaitGroup
	for i, n := range r.nodes {
		if r.passed(n) {
			continue
		}
		wg.Go(func() {
			told[i], errs[i] = r.ask(ctx, n, true, nil)
		})
	}
	wg.Wait()
	if d, err := r.ask(ctx, here{}, true, nil); err == nil {
		told, errs = append(told, d), append(errs, nil) // the last one, so that it counts only where no node is
	}
	known := map[string]bool{}
	var list []*directory
	for i, d := range told {
		if errs[i] != nil {
			out.say("%s cannot say what it has recorded: %s", r.nodes[i].name, status.Convert(errs[i]).Message())
		}
		if d == nil || d.id == "" || known[d.id] {
			continue
		}
		known[d.id] = true
		list = append(list, d)
	}
	return list
}

// ask asks what is recorded on a host. The first answer makes the directory, each goes to take.
func (r *Run) ask(ctx context.Context, by reader, only bool, take func(*nodev1.RecordedResponse) error) (d *directory, err error) {
	q := &nodev1.RecordedRequest{Run: r.cfg.RunNumber, RunKey: r.key[:], DirectoryOnly: only}
	err = by.readBack(ctx, r.cfg, q, func(m *nodev1.RecordedResponse) error {
		if d == nil {
			d = &directory{by: by, id: m.GetDirectory(), host: m.GetHost(), path: m.GetPath(), builders: m.GetBuilders()}
		}
		if take == nil {
			return nil
		}
		return take(m)
	})
	return d, err
}

// readDirectory has a node recover and read a directory.
func (r *Run) readDirectory(ctx context.Context, d *directory, out *recorded) error {
	limit := uint64(mostEvents)
	if n := r.Stats().EventsTriggered; n > 0 {
		limit = n + uint64(r.cfg.Packing)
	}
	set := recording.NewSetReader(r.cfg.Packing, limit)
	full, err := r.ask(ctx, d.by, false, func(m *nodev1.RecordedResponse) error {
		for _, what := range m.GetProblems() {
			out.say("on host %s: %s", d.host, what)
		}
		for _, what := range m.GetRecovered() {
			out.recovered = append(out.recovered, fmt.Sprintf("on host %s: %s", d.host, what))
		}
		if len(m.GetSet()) == 0 {
			return nil
		}
		return set.Add(m.GetSet())
	})
	if err != nil {
		return err
	}
	if full == nil {
		return errors.New("it is not there any more")
	}
	d.builders = full.builders
	d.set, err = set.Set()
	return err
}

// mostEvents is taken for more events than a run has, where its scheduler cannot tell how many were triggered: 1 MHz for half a year.
const mostEvents = 1 << 44

// missedBuilders names the builder units whose output nobody can read now, though they have told of MEPs.
func (r *Run) missedBuilders(out *recorded) {
	built := map[string]uint64{}
	for _, b := range r.Stats().Registers.BUs {
		built[b.Name] = b.Counters.Built
	}
	for _, n := range r.nodes {
		if bu := n.view.GetBuIndex(); n.view.GetBuilder() && !out.found[bu] && built[n.name] > 0 {
			out.say("%d MEPs that builder unit %d of %s has told as built cannot be read now: they are on its host, in %s; "+
				"once a node runs there, the next run recovers them, or ringlet recover does",
				built[n.name], bu, n.name, recording.RunDir(node.OutputDir(r.cfg), r.cfg.RunNumber))
		}
	}
}

// conclude writes the end of the run into the manifest of every directory.
func (r *Run) conclude(out *recorded, report *Report) {
	ctx, cancel := context.WithTimeout(context.Background(), concludeTime)
	defer cancel()
	for _, d := range out.directories {
		v := report.verdictFor(d)
		text, err := json.Marshal(v)
		if err == nil {
			err = d.by.conclude(ctx, r.cfg, &nodev1.ConcludeRequest{Run: r.cfg.RunNumber, RunKey: r.key[:], Verdict: text})
		}
		if err != nil {
			r.log.Error("the end of the run is not in its manifest", "host", d.host, "path", d.path,
				"err", status.Convert(err).Message())
		}
	}
}

// concludeTime bounds how long the manifests of all hosts may take: each is a small file, synchronised.
const concludeTime = 30 * time.Second
