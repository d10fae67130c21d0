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

// reader reads the output on a host: a node there, or this process.
type reader interface {
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

// here is this process, which reads what is on its own host when no node there can.
type here struct{}

func (here) readBack(
	ctx context.Context, cfg config.Config, q *nodev1.RecordedRequest, take func(*nodev1.RecordedResponse) error,
) error {
	return node.ReadBack(ctx, cfg, q, take)
}

func (here) conclude(_ context.Context, cfg config.Config, q *nodev1.ConcludeRequest) error {
	return node.Conclude(cfg, q)
}

// answer is what a reader says of where its host has an output.
type answer struct {
	output int // among those that are files
	by     reader
	name   string // of its node; empty for this process
	at     *directory
	err    error
}

// goneTime bounds how long a node is asked that was lost in the run: it may be back, or stand still.
const goneTime = 5 * time.Second

// readers asks every node where it has written, once it writes there no more, and this process.
func (r *Run) readers(ctx context.Context) []answer {
	there, gone := make([]*member, len(r.nodes)), map[*member]bool{}
	for i, n := range r.nodes {
		if there[i] = n; r.passed(n) {
			there[i] = r.again(n)
			gone[there[i]] = true
		}
	}
	list := gather(there, func(n *member) []answer {
		ctx, cancel := ctx, func() {}
		if gone[n] {
			ctx, cancel = context.WithTimeout(ctx, r.opts.within(goneTime))
		}
		defer cancel()
		return r.where(ctx, n.name, n)
	})
	return slices.Concat(append(list, r.where(ctx, "", here{}))...)
}

// where asks one reader, for each output.
func (r *Run) where(ctx context.Context, name string, by reader) (list []answer) {
	for i, cfg := range r.cfg.FileOutputs() {
		at, err := r.ask(ctx, by, cfg, true, nil)
		list = append(list, answer{
			output: i,
			by:     by,
			name:   name,
			at:     at,
			err:    err,
		})
	}
	return list
}

// again is a node that was lost in the run, where it is now: it may have been started anew, and has its disk still.
func (r *Run) again(n *member) *member {
	if r.opts.Where == nil {
		return n
	}
	addr := r.opts.Where(n.name)
	if addr == "" || addr == n.seat().GetGrpcAddress() {
		return n
	}
	fresh, err := r.connect(&nodev1.Member{Name: n.name, GrpcAddress: addr})
	if err != nil {
		return n
	}
	r.returned = append(r.returned, fresh)
	return fresh
}

// leave closes the connections to nodes that were started anew.
func (r *Run) leave() {
	for _, m := range r.returned {
		_ = m.conn.Close()
	}
	r.returned = nil
}

// directories sorts the answers by directory: nodes may share one, and any of them can read it.
func directories(answers []answer, out *recorded) (list []*directory) {
	known := map[string]*directory{}
	for _, a := range answers {
		switch {
		case a.err != nil:
			out.silent[a.name] = status.Convert(a.err).Message()
		case a.at == nil || a.at.id == "":
		case known[a.at.id] == nil:
			known[a.at.id] = a.at
			list = append(list, a.at)
			a.at.nodes = append(a.at.nodes, a.name)
		default:
			d := known[a.at.id]
			d.others, d.nodes = append(d.others, a.by), append(d.nodes, a.name)
		}
	}
	return list
}
