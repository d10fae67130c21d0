package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/status"

	"ringlet/builderunit/recording"
	"ringlet/internal/node"
	nodev1 "ringlet/proto/ringlet/node/v1"
)

// recorded is what was read back of a run's output, from all hosts.
type recorded struct {
	directories []*directory
	set         *recording.Set // of all directories
	copies      uint64         // MEPs that are there more than once
	found       map[uint32]bool
	silent      map[string]string // why a node could not say what it has recorded, by its name
	problems    []string          // sentences
	recovered   []string
}

// directory is one directory of a run, which nodes may share.
type directory struct {
	by       reader   // who reads it
	others   []reader // who could, too
	id       string
	host     string
	path     string
	builders []*nodev1.RecordedBuilder
	set      *recording.Set
}

// closeTime bounds how long a node may take to close its files when the run is over: what is dirty must reach the disk, and a
// disk may be slow. Those that are late are recovered later, and named.
const closeTime = 5 * time.Minute

// readBack reads what the nodes have recorded: the accounts close with what is there, not with what was meant to be there.
func (r *Run) readBack(ask func(context.Context) []answer) *recorded {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	out := &recorded{set: recording.NewSet(r.cfg.Packing), found: map[uint32]bool{}, silent: map[string]string{}}
	for _, d := range directories(ask(ctx), out) {
		if err := r.readAny(ctx, d, out); err != nil {
			out.say("the output on host %s at %s cannot be read: %s", d.host, d.path, status.Convert(err).Message())
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

// readAny has a directory read by the first who can.
func (r *Run) readAny(ctx context.Context, d *directory, out *recorded) error {
	for {
		err := r.readDirectory(ctx, d, out)
		if err == nil || len(d.others) == 0 {
			return err
		}
		d.by, d.others = d.others[0], d.others[1:]
	}
}

// why says in brackets why a node could not say what it has recorded, if that is known.
func (o *recorded) why(name string) string {
	if text := o.silent[name]; text != "" {
		return " (" + text + ")"
	}
	return ""
}

func (o *recorded) say(format string, args ...any) {
	o.problems = append(o.problems, fmt.Sprintf(format, args...))
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
	if n := r.LastStats().EventsTriggered; n > 0 && !r.gaveUp {
		limit = n + uint64(r.cfg.Packing)
	}
	set := recording.NewSetReader(r.cfg.Packing, limit)
	var problems, recovered []string
	full, err := r.ask(ctx, d.by, false, func(m *nodev1.RecordedResponse) error {
		problems, recovered = append(problems, m.GetProblems()...), append(recovered, m.GetRecovered()...)
		if len(m.GetSet()) == 0 {
			return nil
		}
		return set.Add(m.GetSet())
	})
	switch {
	case err != nil:
		return err
	case full == nil:
		return errors.New("it is not there any more")
	}
	for _, what := range problems {
		out.say("on host %s: %s", d.host, what)
	}
	for _, what := range recovered {
		out.recovered = append(out.recovered, fmt.Sprintf("on host %s: %s", d.host, what))
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
	for _, b := range r.LastStats().Registers.BUs {
		built[b.Name] = b.Counters.Built
	}
	for _, n := range r.nodes {
		if bu := n.view.GetBuIndex(); n.view.GetBuilder() && !out.found[bu] && built[n.name] > 0 {
			out.say("%d MEPs that builder unit %d of %s has told as built cannot be read now%s: they are on its host, in %s; "+
				"once a node runs there, the next run recovers them, or ringlet recover does",
				built[n.name], bu, n.name, out.why(n.name), recording.RunDir(node.OutputDir(r.cfg), r.cfg.RunNumber))
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
