package node

import (
	"bytes"
	"context"
	"errors"
	"io/fs"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"ringlet/event/slowdata"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/recording"
)

// maxSlowDataLines bounds the lines of one call, in bytes.
const maxSlowDataLines = 3 << 20

// KeepSlowData appends lines of slow data to the file of the present run beside this node's output, and answers when
// they are on the disk. The status is FailedPrecondition if this node has no such run or no output of files,
// ResourceExhausted if the file is full, and Unavailable if the disk fails.
func (s *service) KeepSlowData(
	ctx context.Context, req *nodev1.KeepSlowDataRequest,
) (*nodev1.KeepSlowDataResponse, error) {
	if _, err := s.node.access.admit(ctx, "KeepSlowData", req.GetTerm()); err != nil {
		return nil, err
	}
	defer s.node.controlCalls.beginCall()()
	if err := checkSlowDataLines(req.GetLines()); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	now, of := s.node.sessionAndRequest()
	if now == nil || of.GetRun() != req.GetRun() || !bytes.Equal(of.GetRunKey(), req.GetRunKey()) ||
		!now.self.GetBuilder() || !now.cfg.WritesFiles() {
		return nil, status.Errorf(codes.FailedPrecondition, "%s writes no files of run %d", s.node.cfg.Name, req.GetRun())
	}
	dir := recording.RunDir(OutputDir(now.cfg.FileOutputs()[0]), req.GetRun())
	err := recording.AppendSlowData(dir, s.node.cfg.Name, req.GetLines())
	var full *recording.SlowDataFullError
	switch {
	case errors.As(err, &full):
		return nil, status.Error(codes.ResourceExhausted, err.Error())
	case errors.Is(err, fs.ErrNotExist):
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	case err != nil:
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	return &nodev1.KeepSlowDataResponse{}, nil
}

// checkSlowDataLines says why lines cannot stand in a file of slow data.
func checkSlowDataLines(lines []byte) error {
	switch {
	case len(lines) > maxSlowDataLines:
		return errors.New("more lines of slow data than one call may have")
	case !bytes.HasSuffix(lines, []byte{'\n'}):
		return errors.New("the last line of slow data is not whole")
	}
	for line := range bytes.Lines(lines) {
		if _, err := slowdata.ParseJSON(line); err != nil {
			return err
		}
	}
	return nil
}
