package ctl

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc"

	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// states is a control that tells one status after the other, and on whose record every run is GOOD.
type states struct {
	ecsv1.RunControlClient
	next []*ecsv1.PartitionStatus
}

func (s *states) GetStatus(context.Context, *ecsv1.GetStatusRequest,
	...grpc.CallOption) (*ecsv1.PartitionStatus, error) {
	st := s.next[0]
	s.next = s.next[1:]
	return st, nil
}

func (s *states) GetRun(_ context.Context, req *ecsv1.GetRunRequest, _ ...grpc.CallOption) (*ecsv1.Run, error) {
	return &ecsv1.Run{Number: req.GetNumber(), Verdict: ecsv1.Verdict_VERDICT_GOOD}, nil
}

func partitionStatus(state string, run uint32, noRun *ecsv1.Cause) *ecsv1.PartitionStatus {
	return &ecsv1.PartitionStatus{Root: &ecsv1.Component{State: state}, Run: run, NoRun: noRun}
}

// The end that is waited for is that of the run just asked for, and never that of one before.
func TestWhoseEndIsAwaited(t *testing.T) {
	broken := &ecsv1.Cause{Component: "n2", What: "it has not joined"}
	for name, tc := range map[string]struct {
		statuses []*ecsv1.PartitionStatus
		code     int
		says     string
	}{
		"it has its number": {[]*ecsv1.PartitionStatus{partitionStatus("Running", 7, nil)}, exitGood, "run 7: GOOD"},
		"it has none yet": {[]*ecsv1.PartitionStatus{partitionStatus("Starting", 6, nil), partitionStatus("Running", 7, nil)},
			exitGood,
			"run 7: GOOD"},
		"it is over": {[]*ecsv1.PartitionStatus{partitionStatus("Ready", 7, nil)}, exitGood, "run 7: GOOD"},
		"it never got one": {[]*ecsv1.PartitionStatus{partitionStatus("Starting", 6, nil),
			partitionStatus("Error", 6, broken)}, exitFault,
			"did not begin: n2: it has not joined"},
		"the load had failed": {[]*ecsv1.PartitionStatus{partitionStatus("Error", 6, broken)}, exitFault,
			"did not begin: n2: it has not joined"},
		"it was the first ever": {[]*ecsv1.PartitionStatus{partitionStatus("Offline", 0, nil)}, exitPrecondition,
			"there is no run that could end"},
	} {
		var out bytes.Buffer
		s := &Session{cfg: Config{Out: &out}, client: &states{next: tc.statuses}}
		w, done, err := waitCondition{until: momentEnd}, false, error(nil)
		for range tc.statuses {
			if done {
				t.Errorf("%s: over too soon: %v", name, err)
			}
			_, done, err = s.checkCondition(t.Context(), &w)
		}
		if err != nil {
			out.WriteString(err.Error())
		}
		if !done || ExitCode(err) != tc.code || !strings.Contains(out.String(), tc.says) {
			t.Errorf("%s: done %v, code %d: %s", name, done, ExitCode(err), &out)
		}
	}
}
