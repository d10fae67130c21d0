package nodes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"google.golang.org/grpc/status"

	"ringlet/node"
	"ringlet/node/config"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/recording"
)

// outputReader reads the output on a host: a node there does, or this process.
type outputReader interface {
	readBack(ctx context.Context, cfg config.Completed, q *nodev1.RecordedRequest,
		take func(*nodev1.RecordedResponse) error) error
	conclude(ctx context.Context, cfg config.Completed, q *nodev1.ConcludeRequest) error
}

func (m *member) readBack(
	ctx context.Context, cfg config.Completed, q *nodev1.RecordedRequest, take func(*nodev1.RecordedResponse) error,
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

func (m *member) conclude(ctx context.Context, cfg config.Completed, q *nodev1.ConcludeRequest) error {
	q.Configuration, q.Term = cfg.Effective(), m.term
	_, err := m.client.Conclude(ctx, q)
	return err
}

// localReader is this process, which reads the output on its own host if no node there can.
type localReader struct{}

func (localReader) readBack(
	ctx context.Context, cfg config.Completed, q *nodev1.RecordedRequest, take func(*nodev1.RecordedResponse) error,
) error {
	return node.ReadRecorded(ctx, cfg, q, take)
}

func (localReader) conclude(_ context.Context, cfg config.Completed, q *nodev1.ConcludeRequest) error {
	return node.WriteVerdict(cfg, q)
}

// outputs reads the output of a run back from all hosts, when the run is over.
type outputs struct {
	*Run
	returned []*member // connections to restarted nodes, for the time of reading
}

// outputAnswer is the answer of one reader: the directory of one output on its host.
type outputAnswer struct {
	output    int // index in Config.FileOutputs
	reader    outputReader
	name      string        // of the reader's node; empty for this process
	directory *runDirectory // nil: there is none, or err
	err       error
}

// lostNodeTimeout bounds how long a node is asked that was lost in the run: it may be back, or hang.
const lostNodeTimeout = 5 * time.Second

// locateOutputs asks every node, and this process, for the directories of the run. A node answers when it has closed
// its files.
func (r *outputs) locateOutputs(ctx context.Context) []outputAnswer {
	there, gone := make([]*member, len(r.nodes)), map[*member]bool{}
	for i, n := range r.nodes {
		if there[i] = n; r.isUnavailable(n) {
			there[i] = r.newMemberOf(n)
			gone[there[i]] = true
		}
	}
	list := requestEach(there, func(n *member) []outputAnswer {
		ctx, cancel := ctx, func() {}
		if gone[n] {
			ctx, cancel = context.WithTimeout(ctx, r.opts.timeoutFor(lostNodeTimeout))
		}
		defer cancel()
		return r.locateOutput(ctx, n.name, n)
	})
	return slices.Concat(append(list, r.locateOutput(ctx, "", localReader{}))...)
}

// locateOutput asks one reader for the directory of each output of files.
func (r *outputs) locateOutput(ctx context.Context, name string, by outputReader) (list []outputAnswer) {
	for i, cfg := range r.cfg.FileOutputs() {
		directory, err := r.queryRecorded(ctx, by, cfg, true, nil)
		list = append(list, outputAnswer{
			output:    i,
			reader:    by,
			name:      name,
			directory: directory,
			err:       err,
		})
	}
	return list
}

// newMemberOf connects to a node that was lost in the run at its present address: a restarted process can read what the
// one before wrote. It returns n if the address has not changed.
func (r *outputs) newMemberOf(n *member) *member {
	if r.opts.AddressOf == nil {
		return n
	}
	addr := r.opts.AddressOf(n.process())
	if addr == "" || addr == n.entry().GetGrpcAddress() {
		return n
	}
	fresh, err := r.newMember(&nodev1.Member{Name: n.name, Substitute: n.entry().GetSubstitute(), GrpcAddress: addr})
	if err != nil {
		return n
	}
	r.returned = append(r.returned, fresh)
	return fresh
}

// closeReturned closes the connections that newMemberOf made.
func (r *outputs) closeReturned() {
	for _, m := range r.returned {
		_ = m.conn.Close()
	}
	r.returned = nil
}

// groupByDirectory groups the answers by directory: nodes may share one, and then any of them can read it. It notes the
// errors in out.
func groupByDirectory(answers []outputAnswer, out *readBackOutput) (list []*runDirectory) {
	known := map[string]*runDirectory{}
	for _, a := range answers {
		switch {
		case a.err != nil:
			out.silentReasons[a.name] = status.Convert(a.err).Message()
		case a.directory == nil || a.directory.id == "":
		case known[a.directory.id] == nil:
			known[a.directory.id] = a.directory
			list = append(list, a.directory)
			a.directory.nodes = append(a.directory.nodes, a.name)
		default:
			d := known[a.directory.id]
			d.otherReaders, d.nodes = append(d.otherReaders, a.reader), append(d.nodes, a.name)
		}
	}
	return list
}

// readBackOutput is the output of a run as it was read back from all hosts.
type readBackOutput struct {
	directories    []*runDirectory
	mepSet         *recording.MEPSet // of all directories
	copies         uint64            // MEPs that are there more than once
	foundBUs       map[uint32]bool   // builder units whose output was read and is closed
	silentReasons  map[string]string // why a node could not say what it has recorded, by its name
	unreadNodes    []string          // nodes that may have more, or whose manifest did not take the verdict
	unreadWithMEPs []string          // nodes that may have more, and have built MEPs
	problems       []string          // sentences
	recovered      []string

	cfg     config.Completed  // with this output alone
	streams []*readBackOutput // several outputs of files, whose sum this one is; nil if builder units have one output
}

// runDirectory is one directory of a run, which nodes may share.
type runDirectory struct {
	cfg          config.Completed // with this output alone
	reader       outputReader     // reads it
	otherReaders []outputReader   // can read it, too
	nodes        []string         // nodes that reported it
	id           string
	host         string
	path         string
	builders     []*nodev1.RecordedBuilder
	slowValues   uint64
	mepSet       *recording.MEPSet
}

// fileCloseTimeout bounds how long nodes may take to close their files after the run, since dirty pages must reach a
// disk that may be slow, and to read them back. The output of a node that is late is named, and read later.
const fileCloseTimeout = 5 * time.Minute

// readBack reads the files that the nodes have written: the accounts close with what the files hold, and not with what
// the nodes meant to write.
func (r *outputs) readBack(ctx context.Context, locate func(context.Context) []outputAnswer,
	wanted []wantedOutput) *readBackOutput {
	ctx, cancel := context.WithTimeout(ctx, fileCloseTimeout)
	defer cancel()
	answers, files := locate(ctx), r.cfg.FileOutputs()
	if len(r.cfg.Outputs()) == 1 {
		return r.readOutput(ctx, r.cfg, answers, wanted)
	}
	sum := &readBackOutput{mepSet: r.newSet()}
	for i, cfg := range files {
		matching := slices.DeleteFunc(slices.Clone(answers), func(a outputAnswer) bool { return a.output != i })
		sum.addOutput(r.readOutput(ctx, cfg, matching, wanted))
	}
	return sum
}

// readOutput reads one output, from all directories.
func (r *outputs) readOutput(ctx context.Context, cfg config.Completed, answers []outputAnswer,
	wanted []wantedOutput) *readBackOutput {
	out := &readBackOutput{
		cfg:           cfg,
		mepSet:        r.newSet(),
		foundBUs:      map[uint32]bool{},
		silentReasons: map[string]string{},
	}
	for _, d := range groupByDirectory(answers, out) {
		if err := r.readAny(ctx, d, out); err != nil {
			out.addProblem("the output on host %s at %s cannot be read: %s", d.host, d.path, status.Convert(err).Message())
			for _, name := range d.nodes {
				out.silentReasons[name] = status.Convert(err).Message()
			}
			continue
		}
		out.directories = append(out.directories, d)
		out.copies += out.mepSet.Union(d.mepSet)
		for _, b := range d.builders {
			if b.GetState() != string(recording.StateWriting) {
				out.foundBUs[b.GetIndex()] = true
			}
		}
	}
	out.noteUnread(wanted, recording.RunDir(node.OutputDir(cfg), cfg.RunNumber))
	return out
}

// addOutput adds one of several outputs to the sum. A MEP that is in two outputs is no copy.
func (o *readBackOutput) addOutput(one *readBackOutput) {
	o.streams = append(o.streams, one)
	o.directories = append(o.directories, one.directories...)
	o.mepSet.Union(one.mepSet)
	o.copies += one.copies
	o.problems, o.recovered = append(o.problems, one.problems...), append(o.recovered, one.recovered...)
	o.unreadNodes, o.unreadWithMEPs = appendMissing(o.unreadNodes, one.unreadNodes), appendMissing(o.unreadWithMEPs,
		one.unreadWithMEPs)
}

// appendMissing appends names that are not there yet.
func appendMissing(names, more []string) []string {
	for _, n := range more {
		if !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	return names
}

// newSet makes an empty set for MEPs of the run.
func (r *outputs) newSet() *recording.MEPSet {
	if r.cfg.HasLiveSources() {
		return recording.NewLiveMEPSet(r.cfg.Packing)
	}
	return recording.NewMEPSet(r.cfg.Packing)
}

// readAny has a directory read by the first of its readers that succeeds.
func (r *outputs) readAny(ctx context.Context, d *runDirectory, out *readBackOutput) error {
	for {
		err := r.readDirectory(ctx, d, out)
		if err == nil || len(d.otherReaders) == 0 {
			return err
		}
		d.reader, d.otherReaders = d.otherReaders[0], d.otherReaders[1:]
	}
}

// silentReason is the entry of silentReasons for a node, in brackets; empty if there is none.
func (o *readBackOutput) silentReason(name string) string {
	if text := o.silentReasons[name]; text != "" {
		return " (" + text + ")"
	}
	return ""
}

func (o *readBackOutput) addProblem(format string, args ...any) {
	o.problems = append(o.problems, fmt.Sprintf(format, args...))
}

// queryRecorded asks a reader for the run's directory of an output, and for its contents unless only is set. The first
// message makes the directory; each goes to take, if that is not nil.
func (r *outputs) queryRecorded(
	ctx context.Context, by outputReader, cfg config.Completed, only bool, take func(*nodev1.RecordedResponse) error,
) (d *runDirectory, err error) {
	q := &nodev1.RecordedRequest{Run: r.cfg.RunNumber, RunKey: r.key[:], DirectoryOnly: only}
	err = by.readBack(ctx, cfg, q, func(m *nodev1.RecordedResponse) error {
		if d == nil {
			d = &runDirectory{
				cfg:      cfg,
				reader:   by,
				id:       m.GetDirectory(),
				host:     m.GetHost(),
				path:     m.GetPath(),
				builders: m.GetBuilders(),

				slowValues: m.GetSlowValues(),
			}
		}
		if take == nil {
			return nil
		}
		return take(m)
	})
	return d, err
}

// readDirectory has the directory's reader recover segments that were left open, and read the directory.
func (r *outputs) readDirectory(ctx context.Context, d *runDirectory, out *readBackOutput) error {
	limit := uint64(maxRunEvents)
	if n := r.LastStats().GetCounters().GetEventsIssued(); n > 0 && !r.State().GivenUp && !r.lost {
		limit = n + uint64(r.cfg.Packing)
	}
	set := recording.NewSetReader(r.newSet(), limit)
	var problems, recovered []string
	full, err := r.queryRecorded(ctx, d.reader, d.cfg, false, func(m *nodev1.RecordedResponse) error {
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
		return errors.New("the directory is not there any more")
	}
	for _, what := range problems {
		out.addProblem("on host %s: %s", d.host, what)
	}
	for _, what := range recovered {
		out.recovered = append(out.recovered, fmt.Sprintf("on host %s: %s", d.host, what))
	}
	d.builders, d.slowValues = full.builders, full.slowValues
	d.mepSet, err = set.Set()
	return err
}

// maxRunEvents bounds event numbers if the scheduler cannot say how many were triggered: 1 MHz for half a year.
const maxRunEvents = 1 << 44

// wantedOutput is a builder unit that may have an output.
type wantedOutput struct {
	node  string
	bu    uint32
	built uint64 // MEPs, by the scheduler's last figures
}

// wantedOutputs are the builder units of the view.
func (r *outputs) wantedOutputs() []wantedOutput {
	built := map[string]uint64{}
	for _, b := range r.LastStats().GetBus() {
		built[b.GetName()] = b.GetCounters().GetBuilt()
	}
	return wantedOutputsOf(&r.cfg, r.Names(), built)
}

// noteUnread notes the builder units whose output was not found, and adds a problem for each that has built MEPs. A
// builder unit without MEPs whose node answered that it has no output misses nothing.
func (o *readBackOutput) noteUnread(wanted []wantedOutput, dir string) {
	for _, w := range wanted {
		if o.foundBUs[w.bu] || w.built == 0 && o.silentReasons[w.node] == "" {
			continue
		}
		o.unreadNodes = append(o.unreadNodes, w.node)
		if w.built > 0 {
			o.unreadWithMEPs = append(o.unreadWithMEPs, w.node)
			o.addProblem("%d MEPs that builder unit %d of %s has told as built cannot be read now%s: they are on its host, "+
				"in %s; once a node runs there, the next run recovers them, or ringlet recover does",
				w.built, w.bu, w.node, o.silentReason(w.node), dir)
		}
	}
}

// writeVerdicts writes the verdict of the run into the manifest of every directory. If that fails, the directory's
// nodes count as unread, and the record is completed later.
func (r *outputs) writeVerdicts(ctx context.Context, out *readBackOutput, report *Report) {
	ctx, cancel := context.WithTimeout(ctx, concludeTimeout)
	defer cancel()
	for _, d := range out.directories {
		v := report.verdictFor(d)
		text, err := json.Marshal(v)
		if err == nil {
			q := &nodev1.ConcludeRequest{Run: r.cfg.RunNumber, RunKey: r.key[:], Verdict: text}
			err = d.reader.conclude(ctx, d.cfg, q)
		}
		if err != nil {
			r.log.Error("the manifest of the run lacks its verdict: make room on that disk, or mend it; a run control "+
				"writes the verdict then, and after 'ringlet run' the report alone has it", "host", d.host, "path", d.path,
				"err", status.Convert(err).Message())
			out.noteVerdictMissing(d)
		}
	}
	report.RecordedOutput.UnreadNodes = out.unreadNodes
}

// noteVerdictMissing notes the nodes of a directory whose manifest did not take the verdict as unread, so that it is
// read and concluded again. If the manifest names no builder unit, they are the nodes that reported the directory.
func (o *readBackOutput) noteVerdictMissing(d *runDirectory) {
	var names []string
	for _, b := range d.builders {
		names = append(names, b.GetNode())
	}
	if len(names) == 0 {
		names = d.nodes
	}
	o.unreadNodes = appendMissing(o.unreadNodes, names)
}

// concludeTimeout bounds how long writing the manifests of all hosts may take: each is a small file, with an fsync.
const concludeTimeout = 30 * time.Second
