package partition

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"ringlet/ecs/api"
	"ringlet/ecs/partition/nodes"
	ecsrun "ringlet/ecs/run"
	"ringlet/event/slowdata"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// slowKeeper keeps slow data: the last value of each name in memory, and all values of a run beside its events. One
// goroutine writes what many senders have given, so that a disk synchronises once for all.
type slowKeeper struct {
	*control

	mu      sync.Mutex // guards what follows
	latest  slowdata.Table
	waiting []*slowRequest // not taken up by the writer yet
	writing bool           // the writer runs
	warned  uint32         // the run of which it was told that slow data cannot be kept
}

// slowRequest is values that wait for the disk.
type slowRequest struct {
	values []slowdata.Value
	done   chan error // has room for the answer
}

const (
	// maxSlowRequests bounds the requests that wait: more than senders that can be connected.
	maxSlowRequests = 1024
	// maxSlowValues is how many values are written together, beyond those of one request: of at most 6.4 kB each, less
	// than a node takes in one call.
	maxSlowValues = 200
	// slowRetryInterval is the time between two attempts to write while no node can.
	slowRetryInterval = time.Second
)

// Why values are not kept, in full sentences.
var (
	errNoSlowRun   = errors.New("no run is under way: the value is shown, and the next run begins with it")
	errNoSlowFiles = errors.New("the run writes no files: the value is shown, and stands in no file")
	errSlowCrowd   = errors.New("too many values wait for the disk: send it again")
)

// KeepSlowData keeps values, and returns for each of them nil if it is in a file of the present run, on the disk, or
// why it is not. While the run goes on and no node can write, it waits, until ctx ends.
func (p *Partition) KeepSlowData(ctx context.Context, values []slowdata.Value) []error {
	return p.slow.keepEach(ctx, values)
}

func (k *slowKeeper) keepEach(ctx context.Context, values []slowdata.Value) []error {
	errs := make([]error, len(values))
	var good []slowdata.Value
	k.mu.Lock()
	for i := range values {
		if errs[i] = k.latest.Note(values[i]); errs[i] == nil {
			good = append(good, values[i])
		}
	}
	k.mu.Unlock()
	err := k.keep(ctx, good)
	for i := range errs {
		if errs[i] == nil {
			errs[i] = err
		}
	}
	return errs
}

// maxShownValues is how many values a snapshot has.
const maxShownValues = 200

// lastValues are the last values, for a snapshot, those that came last first.
func (k *slowKeeper) lastValues() (shown []*ecsv1.SlowValue) {
	k.mu.Lock()
	values := k.latest.Values()
	k.mu.Unlock()
	slices.SortStableFunc(values, func(a, b slowdata.Value) int { return b.Received.Compare(a.Received) })
	for i := range values[:min(len(values), maxShownValues)] {
		v := &values[i]
		shown = append(shown, &ecsv1.SlowValue{
			Name:     v.Name,
			Value:    v.String(),
			IsText:   v.IsText,
			Time:     timestamppb.New(v.Time),
			Received: timestamppb.New(v.Received),
			User:     v.User,
		})
	}
	return shown
}

// keep has the writer write values, and waits for it.
func (k *slowKeeper) keep(ctx context.Context, values []slowdata.Value) error {
	if len(values) == 0 {
		return nil
	}
	req := &slowRequest{values: values, done: make(chan error, 1)}
	k.mu.Lock()
	if len(k.waiting) >= maxSlowRequests {
		k.mu.Unlock()
		return errSlowCrowd
	}
	k.waiting = append(k.waiting, req)
	if !k.writing {
		k.writing = true
		k.wg.Go(k.writeAll)
	}
	k.mu.Unlock()
	select {
	case err := <-req.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// takeWaiting takes up the requests for the next write; nil: there are none, and the writer ends.
func (k *slowKeeper) takeWaiting() (next []*slowRequest) {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := 0
	for values := 0; n < len(k.waiting) && values < maxSlowValues; n++ {
		values += len(k.waiting[n].values)
	}
	next = k.waiting[:n:n]
	k.waiting = k.waiting[n:]
	k.writing = n > 0
	return next
}

// writeAll writes until nothing waits.
func (k *slowKeeper) writeAll() {
	for {
		next := k.takeWaiting()
		if len(next) == 0 {
			return
		}
		var lines []byte
		for _, req := range next {
			for i := range req.values {
				lines = req.values[i].AppendJSON(lines)
			}
		}
		err := k.write(lines)
		for _, req := range next {
			req.done <- err
		}
	}
}

// write writes lines into a file of the present run, on the disk. It tries again while the run goes on.
func (k *slowKeeper) write(lines []byte) error {
	for {
		run := k.currentState().run
		if run == nil || run.State().Phase == ecsrun.Beginning || run.State().Phase == ecsrun.Absent {
			return errNoSlowRun
		}
		if cfg := run.Configuration(); !cfg.WritesFiles() {
			return errNoSlowFiles
		}
		err := nodes.KeepSlowData(k.ctx, run, lines)
		var refused *nodes.SlowDataRefusedError
		if err == nil || k.ctx.Err() != nil {
			return err
		}
		k.warn(run.Number(), err)
		if errors.As(err, &refused) {
			return err
		}
		select {
		case <-time.After(slowRetryInterval):
		case <-k.ctx.Done():
			return k.ctx.Err()
		}
	}
}

// warn tells, once in a run, that slow data cannot be kept.
func (k *slowKeeper) warn(run uint32, why error) {
	k.mu.Lock()
	known := k.warned == run
	k.warned = run
	k.mu.Unlock()
	if !known {
		k.publishf(severityWarning, "slow-data", partitionComponent, "%v", why)
	}
}

// beginRun writes the last value of each name to the file of a run that has begun: what is constant is sent once.
func (k *slowKeeper) beginRun() {
	k.mu.Lock()
	values := k.latest.Values()
	k.mu.Unlock()
	for len(values) > 0 {
		n := min(len(values), maxSlowValues)
		if err := k.keep(k.ctx, values[:n]); err != nil && !errors.Is(err, errNoSlowFiles) {
			k.log.Warn("a run does not begin with the last values of slow data", "err", err)
			return
		}
		values = values[n:]
	}
}

// note keeps a value that a user gives.
func (k *slowKeeper) note(ctx context.Context, user string, args map[string]string) (*ecsv1.CommandResponse, error) {
	name := args["name"]
	if name == "" {
		name = commandNote
	}
	v, err := slowdata.New(name, args["text"], time.Now())
	if err != nil {
		return nil, &api.ArgumentError{Name: "arguments.text", Why: err.Error()}
	}
	v.User = user
	now, state := k.currentState(), k.runner.Status().State
	if err := now.runCommandError(state, commandNote); err != nil {
		return nil, err
	}
	out := &ecsv1.CommandResponse{State: state.String(), Run: now.run.Number()}
	k.publish(&ecsv1.Event{Kind: commandNote, Component: partitionComponent, User: user, Severity: severityInfo,
		Text: fmt.Sprintf("%s = %s", v.Name, v.String())})
	switch err := k.keepEach(ctx, []slowdata.Value{v})[0]; {
	case errors.Is(err, errNoSlowFiles):
		out.Message = fmt.Sprintf("run %d writes no files: the note stands among the events of its record alone", out.Run)
	case err != nil:
		return nil, preconditionError(k.runner.Status().State, commandNote, err.Error())
	default:
		out.Message = fmt.Sprintf("kept with the slow data of run %d", out.Run)
	}
	return out, nil
}
