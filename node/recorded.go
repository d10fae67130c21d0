package node

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"ringlet/node/config"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/recording"
)

// CheckOutput checks whether a configuration may use what it needs of this host, and whether its output can be written
// here.
func (s *service) CheckOutput(
	ctx context.Context, req *nodev1.CheckOutputRequest,
) (*nodev1.CheckOutputResponse, error) {
	cfg, end, err := s.beginOutputCall(ctx, "CheckOutput", req)
	defer end()
	if err != nil {
		return nil, err
	}
	out := &nodev1.CheckOutputResponse{}
	if err := s.node.cfg.Allowlist.Check(&cfg, req.GetSeat()); err != nil {
		out.Problem = err.Error()
	}
	if out.Problem != "" || !req.GetSeat().GetBuilder() {
		return out, nil
	}
	for _, one := range cfg.FileOutputs() {
		last, err := checkOutputFiles(one, req.GetRun())
		if err != nil {
			out.Problem = err.Error()
			return out, nil
		}
		out.LastRun = max(out.LastRun, last)
		if warning := recording.FreeSpaceWarning(OutputDir(one), int64(cfg.SegmentSize)); out.Warning == "" {
			out.Warning = warning
		}
	}
	return out, nil
}

// checkOutputFiles says why an output of files cannot be written here, and returns the highest run number in it.
func checkOutputFiles(cfg config.Completed, run uint32) (last uint32, err error) {
	dir := OutputDir(cfg)
	if cfg.SingleFile() {
		err = recording.CheckFile(cfg.Output, cfg.Overwrite)
	} else {
		err = recording.Check(dir)
	}
	if err == nil {
		last, err = recording.LastRun(dir)
	}
	if err == nil && run != 0 && !cfg.Overwrite {
		if _, missing := os.Stat(recording.RunDir(dir, run)); missing == nil {
			err = &recording.ExistsError{Dir: dir, Run: run}
		}
	}
	return last, err
}

// checkOutputSpace says why the output of a node that is to come back into a run would fail at once, perhaps again.
func (s *session) checkOutputSpace(req *nodev1.CommandRequest) error {
	if !req.GetBack() || !s.self.GetBuilder() {
		return nil
	}
	for _, one := range s.cfg.FileOutputs() {
		if err := recording.CheckSpace(OutputDir(one), int64(one.SegmentSize)); err != nil {
			return err
		}
	}
	return nil
}

// outputRequest is a request about an output.
type outputRequest interface {
	GetConfiguration() []byte
	GetTerm() *nodev1.Term
}

// beginOutputCall admits the control, and only the control, and decodes the configuration in its request. end ends the
// call.
func (s *service) beginOutputCall(
	ctx context.Context, method string, req outputRequest,
) (cfg config.Completed, end func(), err error) {
	if _, err := s.node.access.admit(ctx, method, req.GetTerm()); err != nil {
		return cfg, func() {}, err
	}
	endControlCall, endFileCall := s.node.controlCalls.beginCall(), s.node.fileCalls.beginCall()
	end = func() {
		endFileCall()
		endControlCall()
	}
	cfg, err = config.Compose("the configuration sent by the control", req.GetConfiguration(), nil)
	if err != nil {
		return cfg, end, status.Error(codes.InvalidArgument, err.Error())
	}
	return cfg, end, nil
}

// Recorded recovers and reads what is recorded of a run on this host.
func (s *service) Recorded(req *nodev1.RecordedRequest, to nodev1.Node_RecordedServer) error {
	ctx := to.Context()
	cfg, end, err := s.beginOutputCall(ctx, "Recorded", req)
	defer end()
	if err != nil {
		return err
	}
	if err := s.node.cfg.Allowlist.CheckFiles(&cfg); err != nil {
		return status.Error(codes.FailedPrecondition, err.Error())
	}
	if err := s.node.lastOutput.Load().awaitClosed(ctx, req.GetRun()); err != nil {
		return status.FromContextError(err).Err()
	}
	return ReadRecorded(ctx, cfg, req, to.Send)
}

// ReadRecorded recovers and reads what is recorded of a run, if this process can see it. It sends nothing if there is
// no such run.
func ReadRecorded(
	ctx context.Context, cfg config.Completed, req *nodev1.RecordedRequest, send func(*nodev1.RecordedResponse) error,
) error {
	dir, manifest, err := findRecorded(cfg, req.GetRun(), req.GetRunKey())
	if manifest == nil {
		return err
	}
	host, _ := os.Hostname() // only for people, who also get the path
	first := &nodev1.RecordedResponse{Directory: manifest.ID, Host: host, Path: dir}
	if req.GetDirectoryOnly() {
		return send(first)
	}
	found, err := recording.Recover(ctx, dir)
	for i := range found {
		if found[i].What != "" {
			first.Recovered = append(first.Recovered, found[i].Name+": "+found[i].What)
		}
	}
	if err != nil {
		first.Problems = append(first.Problems, err.Error())
	}
	contents, err := recording.Read(ctx, dir)
	if err != nil {
		return status.Error(codes.DataLoss, err.Error())
	}
	describeRecorded(first, contents)
	if err := send(first); err != nil {
		return err
	}
	for piece := range contents.MEPSet.Pieces() {
		if err := send(&nodev1.RecordedResponse{Set: piece}); err != nil {
			return err
		}
	}
	return nil
}

// findRecorded finds the directory of a run; m is nil without an error if there is none.
func findRecorded(cfg config.Completed, run uint32, key []byte) (dir string, m *recording.Manifest, err error) {
	dir = recording.RunDir(OutputDir(cfg), run)
	if m, err = recording.Load(dir); errors.Is(err, fs.ErrNotExist) {
		return dir, nil, nil
	}
	if err != nil {
		return dir, nil, status.Error(codes.DataLoss, err.Error())
	}
	if len(key) != len(recording.Key{}) || m.Key != recording.Key(key) {
		return dir, nil, nil // another run with the same number
	}
	return dir, m, nil
}

// describeRecorded adds the builders, figures and problems of a recording to the response.
func describeRecorded(to *nodev1.RecordedResponse, c *recording.Contents) {
	at := map[int]*nodev1.RecordedBuilder{}
	for i := range c.Manifest.Builders { // those without a segment, too
		b := &c.Manifest.Builders[i]
		at[b.Index] = &nodev1.RecordedBuilder{Index: uint32(b.Index), Node: b.Node, State: string(b.State)}
		to.Builders = append(to.Builders, at[b.Index])
	}
	for i := range c.Builders {
		b := &c.Builders[i]
		one := at[b.Index]
		if one == nil {
			one = &nodev1.RecordedBuilder{Index: uint32(b.Index), State: string(b.State)}
			to.Builders = append(to.Builders, one)
		}
		one.Segments = uint64(len(b.Segments))
		for j := range b.Segments {
			one.Meps += b.Segments[j].MEPs
			one.Events += b.Segments[j].Events
			one.Bytes += uint64(b.Segments[j].Bytes)
		}
	}
	if c.SlowData != nil {
		to.SlowValues = c.SlowData.Values
	}
	for p := range c.AllProblems {
		to.Problems = append(to.Problems, p.Error())
	}
}

// Conclude writes the verdict on a run into its manifest.
func (s *service) Conclude(ctx context.Context, req *nodev1.ConcludeRequest) (*nodev1.ConcludeResponse, error) {
	cfg, end, err := s.beginOutputCall(ctx, "Conclude", req)
	defer end()
	if err == nil {
		err = WriteVerdict(cfg, req)
	}
	return &nodev1.ConcludeResponse{}, err
}

// WriteVerdict writes the verdict on a run into its manifest, if this process can see it.
func WriteVerdict(cfg config.Completed, req *nodev1.ConcludeRequest) error {
	var verdict recording.Verdict
	if err := json.Unmarshal(req.GetVerdict(), &verdict); err != nil {
		return status.Error(codes.InvalidArgument, "the verdict: "+err.Error())
	}
	dir, manifest, err := findRecorded(cfg, req.GetRun(), req.GetRunKey())
	switch {
	case err != nil:
		return err
	case manifest == nil:
		return status.Errorf(codes.NotFound, "run %d is not recorded in %s", req.GetRun(), OutputDir(cfg))
	}
	err = recording.UpdateManifest(dir, func(m *recording.Manifest) error {
		m.Verdict = &verdict
		return nil
	})
	if err != nil {
		return status.Error(codes.Unavailable, err.Error())
	}
	return nil
}
