package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"ringlet/node/certs"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// Time-outs; an operation that takes longer counts as a hang. They suit a busy machine; stop alone may take two minutes
// before the control forces it.
const (
	queryTimeout = 15 * time.Second  // one query
	joinTimeout  = 90 * time.Second  // until all nodes have joined, after the end of all faults
	startTimeout = 120 * time.Second // from Offline until a run is going on
	endTimeout   = 180 * time.Second // from stop until a run has a verdict
	restTimeout  = 180 * time.Second // until the partition is Offline
	pollInterval = 50 * time.Millisecond
)

// operatorName is the user of the operator's certificate.
const operatorName = "soak"

// An operator commands the partition as a person with `ringlet ctl` would. It tries again while no control answers.
type operator struct {
	conn *grpc.ClientConn
	api  ecsv1.RunControlClient
}

// dialOperator makes an operator for the control at an address, reached by dial.
func dialOperator(
	address string, id *certs.Identity, dial func(context.Context, string) (net.Conn, error),
) (*operator, error) {
	conn, err := grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(credentials.NewTLS(id.Client("control"))),
		grpc.WithContextDialer(dial),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)),
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: 2 * time.Second}))
	if err != nil {
		return nil, err
	}
	return &operator{conn, ecsv1.NewRunControlClient(conn)}, nil
}

func (o *operator) close() { _ = o.conn.Close() }

// A hangError is an event that did not come within its bound.
type hangError struct {
	What  string
	Bound time.Duration
	Last  error // last error, or nil
}

func (e *hangError) Error() string {
	text := fmt.Sprintf("%s not within %v", e.What, e.Bound)
	if e.Last != nil {
		text += ": " + errText(e.Last)
	}
	return text
}

func (e *hangError) Unwrap() error { return e.Last }

// errText is the message of an error, without gRPC's prefix.
func errText(err error) string {
	if s, ok := status.FromError(err); ok {
		return s.Message()
	}
	return err.Error()
}

// pollUntil calls try repeatedly until it returns true; after the bound it returns a *hangError with the last error.
func pollUntil(
	ctx context.Context, what string, bound time.Duration, try func(context.Context) (done bool, err error),
) error {
	limit, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	var last error
	for {
		done, err := try(limit)
		if done {
			return nil
		}
		if err != nil {
			last = err
		}
		select {
		case <-limit.Done():
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return &hangError{what, bound, last}
		case <-time.After(pollInterval):
		}
	}
}

// partition queries the partition's state, or the transitional one, and the nodes that have joined.
func (o *operator) partition(ctx context.Context) (state string, joined []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	st, err := o.api.GetStatus(ctx, &ecsv1.GetStatusRequest{})
	if err != nil {
		return "", nil, err
	}
	root := st.GetRoot()
	for _, c := range root.GetChildren() {
		if c.GetKind() == "node" && c.GetState() != "" && !gone(c) {
			joined = append(joined, c.GetName())
		}
	}
	if s := root.GetInBetween(); s != "" {
		return s, joined, nil
	}
	return root.GetState(), joined, nil
}

// missingUnits queries the partition's state and which units of members take no part in the run. Builder units that
// were excluded by hand are not expected.
func (o *operator) missingUnits(ctx context.Context, members, excluded []string) (state string, missing []string,
	err error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	st, err := o.api.GetStatus(ctx, &ecsv1.GetStatusRequest{})
	if err != nil {
		return "", nil, err
	}
	for _, c := range st.GetRoot().GetChildren() {
		if c.GetKind() != "node" || !slices.Contains(members, c.GetName()) {
			continue
		}
		if !c.GetIncluded() || c.GetInError() || c.GetState() != "Running" {
			missing = append(missing, c.GetName()+": "+c.GetCause().GetWhat())
		}
		for _, unit := range c.GetChildren() {
			if !unit.GetIncluded() && !slices.Contains(excluded, c.GetName()) {
				missing = append(missing, unit.GetName()+" of "+c.GetName())
			}
		}
	}
	return st.GetRoot().GetState(), missing, nil
}

// gone says whether a node is listed but not reachable.
func gone(c *ecsv1.Component) bool { return c.GetInError() || len(c.GetFacts()) == 0 }

// command gives one command and waits for its end.
func (o *operator) command(ctx context.Context, name string, arguments map[string]string) error {
	_, err := o.api.Command(ctx, &ecsv1.CommandRequest{Command: name, Arguments: arguments})
	return err
}

// nextCommandToOffline is the next command on the way to Offline; empty in a transitional state, which the operator
// must wait out.
func nextCommandToOffline(state string) string {
	switch state {
	case "Running", "Paused":
		return "stop"
	case "Ready":
		return "reset"
	case "NotReady":
		return "unload"
	case "Error":
		return "recover"
	}
	return ""
}

// bringOffline brings the partition to Offline.
func (o *operator) bringOffline(ctx context.Context) error {
	return pollUntil(ctx, "the partition came to rest", restTimeout, func(ctx context.Context) (bool, error) {
		state, _, err := o.partition(ctx)
		if err != nil || state == "Offline" {
			return err == nil, err
		}
		if c := nextCommandToOffline(state); c != "" {
			if err = o.command(ctx, c, nil); err != nil {
				err = fmt.Errorf("%s: %w", c, err)
			}
		}
		return false, err
	})
}

// awaitJoined waits until all nodes have joined.
func (o *operator) awaitJoined(ctx context.Context, want []string) error {
	var missing []string
	err := pollUntil(ctx, "all nodes joined", joinTimeout, func(ctx context.Context) (bool, error) {
		_, joined, err := o.partition(ctx)
		missing = slices.DeleteFunc(slices.Clone(want), func(n string) bool { return slices.Contains(joined, n) })
		return err == nil && len(missing) == 0, err
	})
	if err != nil && len(missing) > 0 {
		err = fmt.Errorf("%s missing: %w", strings.Join(missing, ", "), err)
	}
	return err
}

// bringReady brings the partition from Offline to Ready. The effect of an earlier fault may make load or configure
// fail: then it tries again.
func (o *operator) bringReady(ctx context.Context, settings []string) (tries int, err error) {
	err = pollUntil(ctx, "the partition was configured", startTimeout, func(ctx context.Context) (bool, error) {
		tries++
		if err := o.bringOffline(ctx); err != nil {
			return false, err
		}
		if err := o.command(ctx, "load", map[string]string{"settings": strings.Join(settings, "\n")}); err != nil {
			return false, fmt.Errorf("load: %w", err)
		}
		if err := o.command(ctx, "configure", nil); err != nil {
			return false, fmt.Errorf("configure: %w", err)
		}
		return true, nil
	})
	return tries, err
}

// newestRun is the number of the newest run; 0 if there is none.
func (o *operator) newestRun(ctx context.Context) (number uint32, err error) {
	err = pollUntil(ctx, "the control told of its runs", endTimeout, func(ctx context.Context) (bool, error) {
		queryCtx, cancel := context.WithTimeout(ctx, queryTimeout)
		defer cancel()
		list, err := o.api.ListRuns(queryCtx, &ecsv1.ListRunsRequest{Limit: 1})
		if err != nil {
			return false, err
		}
		if len(list.GetRuns()) > 0 {
			number = list.GetRuns()[0].GetNumber()
		}
		return true, nil
	})
	return number, err
}

// awaitRecord waits until the record of a run has a verdict, and the control has read the output of all its nodes.
func (o *operator) awaitRecord(ctx context.Context, number uint32) (run *ecsv1.Run, err error) {
	what := fmt.Sprintf("the record of run %d was complete", number)
	err = pollUntil(ctx, what, endTimeout, func(ctx context.Context) (bool, error) {
		queryCtx, cancel := context.WithTimeout(ctx, queryTimeout)
		defer cancel()
		run, err = o.api.GetRun(queryCtx, &ecsv1.GetRunRequest{Number: number})
		switch {
		case err != nil:
			return false, err
		case run.GetVerdict() == ecsv1.Verdict_VERDICT_UNSPECIFIED:
			return false, errors.New("it has no verdict")
		case len(run.GetUnread()) > 0:
			return false, fmt.Errorf("what these have written was not read: %s", strings.Join(run.GetUnread(), ", "))
		}
		return true, nil
	})
	return run, err
}

// isRefusal says whether the control has answered with a refusal.
func isRefusal(err error) bool {
	switch status.Code(err) {
	case codes.FailedPrecondition, codes.InvalidArgument, codes.PermissionDenied:
		return true
	}
	return false
}
