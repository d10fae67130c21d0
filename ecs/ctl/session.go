package ctl

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"ringlet/internal/safeopen"
	"ringlet/node/certs"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// Config of a session.
type Config struct {
	Address       string // of the control's API, HOST:PORT
	Identity      *certs.Identity
	Version       string // of this program, for the results of a scan
	In            io.Reader
	Out, Err      io.Writer
	JSON          bool
	OutIsTerminal bool // Out is a terminal: watch overwrites its line
}

// controlName is the name in the certificate of a control.
const controlName = "control"

const (
	// requestTimeout bounds a request that waits for nothing in the control.
	requestTimeout = 10 * time.Second
	// commandGrace is how much longer than the command's time-out the client waits: after the time-out the control still
	// forces the state and answers.
	commandGrace = 30 * time.Second
	// maxAnswer bounds an answer, in bytes: the record of a run has the counters of every node.
	maxAnswer = 64 << 20
)

// Session is a session with one control.
type Session struct {
	cfg    Config
	conn   *grpc.ClientConn
	client ecsv1.RunControlClient
}

// Dial makes a session. It does not wait for the control: the first command fails if no control answers.
func Dial(cfg Config) (*Session, error) {
	conn, err := grpc.NewClient(cfg.Address,
		grpc.WithTransportCredentials(credentials.NewTLS(cfg.Identity.Client(controlName))),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)))
	if err != nil {
		return nil, &Error{ExitCode: ExitUsage, Why: fmt.Sprintf("%q is no address of a control: %v", cfg.Address, err),
			Err: err}
	}
	return &Session{cfg: cfg, conn: conn, client: ecsv1.NewRunControlClient(conn)}, nil
}

// Close closes the connection.
func (s *Session) Close() error { return s.conn.Close() }

// LoadVocabulary asks the control for its commands, its nodes and its state.
func (s *Session) LoadVocabulary(ctx context.Context) (Vocabulary, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	fsm, err := s.client.DescribeFSM(ctx, &ecsv1.DescribeFSMRequest{})
	if err != nil {
		return Vocabulary{}, errorOf("", s.cfg.Address, err)
	}
	st, err := s.client.GetStatus(ctx, &ecsv1.GetStatusRequest{})
	if err != nil {
		return Vocabulary{}, errorOf("", s.cfg.Address, err)
	}
	b := Vocabulary{FSM: fsm, partitionState: stateText(st.GetRoot())}
	for _, c := range st.GetRoot().GetChildren() {
		if c.GetKind() == "node" {
			b.Nodes = append(b.Nodes, c.GetName())
		}
	}
	return b, nil
}

// RunBatch carries out a row of commands, up to the first that fails.
func (s *Session) RunBatch(ctx context.Context, words []string) error {
	vocab, err := s.LoadVocabulary(ctx)
	if err != nil {
		if IsHelp(words) {
			return HelpWithoutControl(s.cfg.Out, s.cfg.Err, err, words)
		}
		return err
	}
	steps, err := vocab.parse(words)
	if err != nil {
		return err
	}
	if len(steps) == 0 {
		return &usageError{"", "no command is given"}
	}
	return s.perform(ctx, vocab, steps)
}

// IsHelp says whether the words ask for help, which needs neither a control nor a certificate.
func IsHelp(words []string) bool { return len(words) > 0 && words[0] == doHelp }

// HelpWithoutControl writes the help for the commands of this package; why is the reason why the control cannot be
// asked.
func HelpWithoutControl(out, errs io.Writer, why error, words []string) error {
	var vocab Vocabulary
	about := ""
	if len(words) > 1 {
		if c, _ := vocab.command(words[1]); c != nil {
			about = words[1]
		}
	}
	if about == "" {
		fmt.Fprintf(errs, "%v\nthese commands are known without a control; a control that answers lists the others:\n", why)
	}
	return writeHelp(out, vocab, about)
}

// RunScript reads lines and carries them out, up to the first command that fails.
func (s *Session) RunScript(ctx context.Context, in io.Reader) error {
	lines := bufio.NewScanner(in)
	for n := 1; lines.Scan(); n++ {
		words, err := SplitWords(lines.Text())
		if err != nil {
			return &usageError{"", fmt.Sprintf("line %d: %v", n, err)}
		}
		if len(words) == 0 {
			continue
		}
		if words[0] == "exit" || words[0] == "quit" {
			return nil
		}
		if err := s.RunBatch(ctx, words); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	return lines.Err()
}

// perform carries out steps. It reads the files of all steps before the first begins.
func (s *Session) perform(ctx context.Context, vocab Vocabulary, steps []step) error {
	for i := range steps {
		if err := s.readFiles(&steps[i]); err != nil {
			return err
		}
	}
	for i := range steps {
		if err := s.performStep(ctx, vocab, &steps[i]); err != nil {
			return err
		}
	}
	return nil
}

// maxConfiguration bounds the file of a configuration, in bytes: more than the control takes.
const maxConfiguration = 1 << 20

// readFiles replaces the file names in a step's arguments by the texts of the files.
func (s *Session) readFiles(st *step) error {
	if st.Command.GetName() == doWait && !st.SteersPartition && len(st.Args) == 0 {
		return &usageError{doWait, "needs a time, a state, or end"}
	}
	for _, a := range st.Command.GetArguments() {
		name, present := st.Args[a.GetName()]
		if a.GetType() != typeYAML || !present {
			continue
		}
		in, from := s.cfg.In, "standard input"
		if name != "-" {
			f, err := safeopen.Open(name)
			if err != nil {
				return &usageError{st.Command.GetName(), err.Error()}
			}
			defer func() { _ = f.Close() }()
			in, from = f, name
		}
		text, err := io.ReadAll(io.LimitReader(in, maxConfiguration+1))
		switch {
		case err != nil:
			return &usageError{st.Command.GetName(), fmt.Sprintf("%s: %v", from, err)}
		case len(text) > maxConfiguration:
			return &usageError{st.Command.GetName(), fmt.Sprintf("%s is larger than %d bytes: this is no configuration", from,
				maxConfiguration)}
		}
		st.Args[a.GetName()] = string(text)
	}
	return nil
}

// performStep carries out one step.
func (s *Session) performStep(ctx context.Context, vocab Vocabulary, st *step) error {
	name := st.Command.GetName()
	if st.SteersPartition {
		return s.sendCommand(ctx, st)
	}
	switch name {
	case doHelp:
		return writeHelp(s.cfg.Out, vocab, st.Args["about"])
	case doWait:
		return s.wait(ctx, st)
	case doWatch:
		if st.Args["events"] == "true" {
			return s.watchEvents(ctx, st, &ecsv1.WatchRequest{})
		}
		return s.watchFigures(ctx, st)
	case doLogs:
		return s.watchEvents(ctx, st, &ecsv1.WatchRequest{After: 1, Logs: true})
	case doSteady:
		return s.steady(ctx, st)
	case doScan:
		return s.scan(ctx, st)
	case doSample:
		return s.sample(ctx, st)
	case doRegisters:
		if err := s.performRequest(ctx, st); err != nil || st.Args["clear"] != "true" {
			return err
		}
		return s.sendCommand(ctx, &step{Command: &ecsv1.CommandDescription{Name: doClear}})
	}
	return s.performRequest(ctx, st)
}

// performRequest carries out a step that has one request and one answer.
func (s *Session) performRequest(ctx context.Context, st *step) error {
	name := st.Command.GetName()
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	msg, write, err := s.request(ctx, st)
	if err != nil {
		return errorOf(name, s.cfg.Address, err)
	}
	if s.cfg.JSON {
		err = s.writeJSON(msg)
	} else {
		err = write(s.cfg.Out)
	}
	if check, is := msg.(*ecsv1.CheckConfigurationResponse); is && err == nil && !check.GetOk() {
		return &Error{Command: name, ExitCode: ExitUsage, Why: "load would refuse the configuration"}
	}
	return err
}

// request carries out a command with one request and one answer, and returns the function that writes the answer as
// text.
func (s *Session) request(ctx context.Context, st *step) (msg proto.Message, write func(io.Writer) error, err error) {
	switch st.Command.GetName() {
	case doStatus:
		r, err := s.client.GetStatus(ctx, &ecsv1.GetStatusRequest{})
		return r, func(w io.Writer) error { return writeStatus(w, r) }, err
	case doSources:
		r, err := s.client.GetSnapshot(ctx, &ecsv1.GetSnapshotRequest{})
		return r, func(w io.Writer) error { return writeSources(w, r) }, err
	case doValues:
		r, err := s.client.GetSnapshot(ctx, &ecsv1.GetSnapshotRequest{})
		return r, func(w io.Writer) error { return writeValues(w, r) }, err
	case doRegisters:
		r, err := s.client.GetSnapshot(ctx, &ecsv1.GetSnapshotRequest{History: shownSamples})
		return r, func(w io.Writer) error { return writeRegisters(w, r) }, err
	case doRuns:
		r, err := s.client.ListRuns(ctx, &ecsv1.ListRunsRequest{Limit: st.number("limit"), Before: st.number("before")})
		return r, func(w io.Writer) error { return writeRuns(w, r) }, err
	case doShowRun:
		r, err := s.client.GetRun(ctx, &ecsv1.GetRunRequest{Number: st.number("number")})
		return r, func(w io.Writer) error { return writeRun(w, r) }, err
	case doTakeControl:
		r, err := s.client.TakeControl(ctx, &ecsv1.TakeControlRequest{Force: st.Args["force"] == "true"})
		return r, func(w io.Writer) error { return writeOwner(w, r) }, err
	case doReleaseControl:
		r, err := s.client.ReleaseControl(ctx, &ecsv1.ReleaseControlRequest{})
		return r, func(w io.Writer) error { return writeOwner(w, r) }, err
	case doCheck:
		r, err := s.client.CheckConfiguration(ctx, &ecsv1.CheckConfigurationRequest{
			Configuration: st.Args["configuration"], Settings: splitLines(st.Args["settings"]),
		})
		return r, func(w io.Writer) error { return writeCheck(w, r) }, err
	case doAudit:
		r, err := s.client.ListAudit(ctx, &ecsv1.ListAuditRequest{Limit: st.number("limit")})
		return r, func(w io.Writer) error { return writeAudit(w, r) }, err
	}
	return nil, nil, &usageError{st.Command.GetName(), "is not carried out here"}
}

func splitLines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// sendCommand gives a command to the control, or asks for its plan.
func (s *Session) sendCommand(ctx context.Context, st *step) error {
	name := st.Command.GetName()
	req := &ecsv1.CommandRequest{Command: name, Arguments: st.Args}
	if !hasArgument(st.Command, noWaitArgument.GetName()) {
		req.NoWait = st.Args[noWaitArgument.GetName()] == "true"
		delete(req.Arguments, noWaitArgument.GetName())
	}
	limit := requestTimeout
	if !st.PlanOnly && !req.GetNoWait() {
		limit = st.Command.GetTimeout().AsDuration() + commandGrace
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if st.PlanOnly {
		plan, err := s.client.Plan(ctx, req)
		switch {
		case err != nil:
			return errorOf(doPlan, s.cfg.Address, err)
		case s.cfg.JSON:
			err = s.writeJSON(plan)
		default:
			err = writePlan(s.cfg.Out, name, plan)
		}
		if err == nil && !plan.GetPossible() {
			err = &Error{Command: doPlan, ExitCode: exitPrecondition, Why: name + " would be refused"}
		}
		return err
	}
	resp, err := s.client.Command(ctx, req)
	switch {
	case err != nil:
		return errorOf(name, s.cfg.Address, err)
	case s.cfg.JSON:
		return s.writeJSON(resp)
	}
	return writeResponse(s.cfg.Out, name, resp)
}

func hasArgument(c *ecsv1.CommandDescription, argument string) bool {
	for _, a := range c.GetArguments() {
		if a.GetName() == argument {
			return true
		}
	}
	return false
}

// writeJSON writes a message as one line of JSON, with zero fields, so that programs find them.
func (s *Session) writeJSON(m proto.Message) error {
	text, err := protojson.MarshalOptions{EmitUnpopulated: true}.Marshal(m)
	if err != nil {
		return err
	}
	var line bytes.Buffer
	if err := json.Compact(&line, text); err != nil { // protojson adds blanks at random
		return err
	}
	line.WriteByte('\n')
	_, err = line.WriteTo(s.cfg.Out)
	return err
}

// WriteError writes an error: a sentence, or a JSON object.
func WriteError(w io.Writer, asJSON bool, err error) {
	if !asJSON {
		fmt.Fprintf(w, "ringlet: %v\n", err)
		return
	}
	why := struct {
		Code  int      `json:"code"`
		Error string   `json:"error"`
		More  []string `json:"details,omitempty"`
	}{Code: ExitCode(err), Error: err.Error()}
	var ctlErr *Error
	if errors.As(err, &ctlErr) {
		why.More = ctlErr.Details
	}
	text, _ := json.Marshal(why) // cannot fail
	fmt.Fprintf(w, "%s\n", text)
}
