package nodes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	nodev1 "ringlet/proto/ringlet/node/v1"
)

// keepTimeout is how long a node may take to have slow data on its disk; then another node is asked.
const keepTimeout = 5 * time.Second

// A SlowDataRefusedError says why a run can never keep some slow data: its file is full, or the node cannot read them.
type SlowDataRefusedError struct{ What string }

func (e *SlowDataRefusedError) Error() string { return e.What }

// KeepSlowData has a node with output keep lines of slow data beside the events of the run, and returns when they are
// on its disk. It asks the node first that kept the last ones, then the others. The error is a *SlowDataRefusedError,
// or says why each node failed; a node that failed may have kept them all the same.
func KeepSlowData(ctx context.Context, r *Run, lines []byte) error {
	errs := []error{errors.New("slow data cannot be kept")}
	first := int(r.slowDataRank.Load())
	for i := range r.nodes {
		rank := (first + i) % len(r.nodes)
		n := r.nodes[rank]
		if !n.entry().GetBuilder() || r.isUnavailable(n) {
			continue
		}
		err := n.keepSlowData(ctx, r, lines)
		switch {
		case err == nil:
			r.slowDataRank.Store(int64(rank))
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case status.Code(err) == codes.ResourceExhausted, status.Code(err) == codes.InvalidArgument: // for ever
			return &SlowDataRefusedError{status.Convert(err).Message()}
		}
		errs = append(errs, fmt.Errorf("on %s: %s", n.name, status.Convert(err).Message()))
	}
	if len(errs) == 1 {
		errs = append(errs, errors.New("no node with a builder unit answers"))
	}
	return joinSentence(errs)
}

func (m *member) keepSlowData(ctx context.Context, r *Run, lines []byte) error {
	ctx, cancel := context.WithTimeout(ctx, r.opts.timeoutFor(keepTimeout))
	defer cancel()
	_, err := m.client.KeepSlowData(ctx, &nodev1.KeepSlowDataRequest{
		Run:    r.cfg.RunNumber,
		RunKey: r.key[:],
		Lines:  lines,
		Term:   m.term,
	})
	return err
}

// joinSentence joins errors in one line: the first, a colon, the others.
func joinSentence(errs []error) error {
	text := errs[0].Error()
	for i, err := range errs[1:] {
		sep := "; "
		if i == 0 {
			sep = ": "
		}
		text += sep + err.Error()
	}
	return errors.New(text)
}
