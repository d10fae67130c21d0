package nodes

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"google.golang.org/grpc/status"

	"ringlet/node"
	"ringlet/node/config"
	nodev1 "ringlet/proto/ringlet/node/v1"
)

// outputReader reads the output on a host: a node there, or this process.
type outputReader interface {
	readBack(ctx context.Context, cfg config.Config, q *nodev1.RecordedRequest,
		take func(*nodev1.RecordedResponse) error) error
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

// localReader is this process, which reads what is on its own host when no node there can.
type localReader struct{}

func (localReader) readBack(
	ctx context.Context, cfg config.Config, q *nodev1.RecordedRequest, take func(*nodev1.RecordedResponse) error,
) error {
	return node.ReadRecorded(ctx, cfg, q, take)
}

func (localReader) conclude(_ context.Context, cfg config.Config, q *nodev1.ConcludeRequest) error {
	return node.WriteVerdict(cfg, q)
}

// outputs is the output of a run that is over, as it is read back from all hosts.
type outputs struct {
	*Run
	returned []*member // nodes that were lost and are back, while the output is read
}

// outputAnswer is what a reader says of where its host has an output.
type outputAnswer struct {
	output    int // among those that are files
	reader    outputReader
	name      string // of its node; empty for this process
	directory *runDirectory
	err       error
}

// lostNodeTimeout bounds how long a node is asked that was lost in the run: it may be back, or stand still.
const lostNodeTimeout = 5 * time.Second

// locateOutputs asks every node where it has written, once it writes there no more, and this process.
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

// locateOutput asks one reader, for each output.
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

// newMemberOf is a node that was lost in the run, where it is now: it may have been started anew, and has its disk
// still.
func (r *outputs) newMemberOf(n *member) *member {
	if r.opts.AddressOf == nil {
		return n
	}
	addr := r.opts.AddressOf(n.name)
	if addr == "" || addr == n.entry().GetGrpcAddress() {
		return n
	}
	fresh, err := r.newMember(&nodev1.Member{Name: n.name, GrpcAddress: addr})
	if err != nil {
		return n
	}
	r.returned = append(r.returned, fresh)
	return fresh
}

// closeReturned closes the connections to nodes that were started anew.
func (r *outputs) closeReturned() {
	for _, m := range r.returned {
		_ = m.conn.Close()
	}
	r.returned = nil
}

// groupByDirectory sorts the answers by directory: nodes may share one, and any of them can read it.
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
