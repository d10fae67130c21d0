package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"ringlet/lab/page"
	"ringlet/lab/tool"
	"ringlet/lab/trial"
	"ringlet/node/config"
	"ringlet/node/hostlimits"
	"ringlet/transport"
)

// task is one measurement of a round.
type task struct {
	name        string // shown as progress
	failureUnit string // carrier, reference or run: after a failure no task of it is tried again
	thing       string // name of the figures in a round
	run         func(ctx context.Context) (trial.Figures, error)
}

// session is a whole measurement under way.
type session struct {
	near
	report      Report
	rounds      trial.Rounds
	failedUnits map[string]bool
	limits      []HostLimit
}

// Run measures until all rounds are done or ctx is over, and returns a report of what it has, with the measurements
// that failed. The report is nil only if nothing could begin. If the far process was lost, the report comes with an
// error.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	started := time.Now()
	cfg.reportProgress("starting", 0, 1)
	s, end, err := begin(ctx, &cfg)
	if s == nil || err != nil && ctx.Err() == nil {
		return nil, err // nothing could be begun
	}
	defer end()
	s.report = Report{
		Version:   cfg.Version,
		Started:   started.UTC().Format(time.RFC3339),
		Peer:      cfg.PeerAddr,
		Rounds:    cfg.Rounds,
		DurationS: cfg.Duration.Seconds(),
		SpinUs:    cfg.Spin.Microseconds(),
		Procs:     runtime.GOMAXPROCS(0),
		Cores:     runtime.NumCPU(),
		Memory:    int64(cfg.Memory),
		Command:   cfg.Command,
		Machine:   page.ThisMachine(cfg.Version),
		LeftOut:   s.report.LeftOut,
		Limits:    s.limits,
	}
	if err == nil {
		err = s.measure(ctx)
	}
	if s.report.Interrupted = ctx.Err() != nil; s.report.Interrupted {
		err = nil
	}
	s.report.summarize(&s.cfg, s.rounds)
	return &s.report, err
}

// Measure takes one raw measurement by its name in reports: a reference, or a carrier and a size.
func Measure(ctx context.Context, cfg Config, name string) (trial.Figures, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	cfg.IPerf, cfg.MPI = name == refIPerf, name == refMPIShm || name == refMPITCP
	if c, size, ok := parseLinkName(name); ok {
		cfg.Carriers, cfg.Sizes = []string{c.Name}, []config.Bytes{size}
	}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s, end, err := begin(ctx, &cfg)
	if s != nil {
		defer end()
	}
	if err != nil {
		return nil, err
	}
	if c, size, ok := parseLinkName(name); ok {
		return s.cell(ctx, c, int(size))
	}
	if !referenceOf(name).applies(&s.cfg) {
		return nil, errors.New(strings.Join(s.report.LeftOut, "; "))
	}
	return s.reference(ctx, name)
}

// linkName is the name of a carrier with writes of a size.
func linkName(carrier string, size int) string { return carrier + " " + config.Bytes(size).String() }

// parseLinkName reads a name that linkName has made; ok is false for any other name.
func parseLinkName(name string) (c transport.CarrierKind, size config.Bytes, ok bool) {
	carrier, text, _ := strings.Cut(name, " ")
	c, known := carrierOf(carrier)
	size, err := config.ParseBytes(text)
	return c, size, known && err == nil
}

// CheckName says what is wrong with the name of a raw measurement.
func CheckName(name string) error {
	if _, _, ok := parseLinkName(name); ok || referenceOf(name) != nil || IsBetweenNodes(name) {
		return nil
	}
	names := namesBetween()
	for i := range references {
		names = append(names, references[i].name)
	}
	return usageErrorf("references", "%q is neither one of %s nor a carrier and a size, as \"quic 1MiB\"", name,
		strings.Join(names, ", "))
}

// begin starts the far process, and makes what the references need. The session is nil if there is no far process; else
// the caller calls the function returned to end it.
func begin(ctx context.Context, cfg *Config) (*session, func(), error) {
	conn, stop, err := cfg.StartFar()
	if err != nil {
		return nil, nil, err
	}
	s := &session{near: near{cfg: *cfg, conn: conn, source: newSource(cfg)}, failedUnits: map[string]bool{}}
	if err = errors.Join(s.connectFar(ctx), ctx.Err()); err == nil {
		err = s.prepare(ctx)
	}
	return s, func() {
		s.cleanUp()
		_ = conn.Close() // the far process may have ended already
		stop()
	}, err
}

// connectFar says hello to the far process.
func (s *session) connectFar(ctx context.Context) error {
	here := hostlimits.ReadSnapshot(s.cfg.Host) // before the memory is taken
	s.mtu = here.MTU
	a, err := callFar(ctx, s.conn, request{Hello: &helloArgs{
		Protocol: protocol,
		Memory:   int64(s.cfg.Memory),
		SpinNs:   s.cfg.Spin.Nanoseconds(),
		Procs:    s.cfg.Procs,
		Name:     s.cfg.Identity.Name,
	}})
	if err != nil {
		return err
	}
	if a.Protocol != protocol || a.Limits == nil {
		return &messageError{"its answer to hello has another version, or no limits"}
	}
	busy := 1
	if s.cfg.PeerAddr == "" {
		busy = 2
	}
	for _, f := range hostlimits.FindLimits(here, s.cfg.hostWants(busy)) {
		s.limits = append(s.limits, HostLimit{"near", f})
	}
	if s.cfg.PeerAddr != "" {
		for _, f := range hostlimits.FindLimits(*a.Limits, s.cfg.hostWants(busy)) {
			s.limits = append(s.limits, HostLimit{"far", f})
		}
		s.mtu = min(s.mtu, a.Limits.MTU)
	}
	return nil
}

// prepare makes what the references need, and lists what is left out.
func (s *session) prepare(ctx context.Context) error {
	leave := func(what string, why any) {
		s.report.LeftOut = append(s.report.LeftOut, fmt.Sprintf("%s: left out, %v", what, why))
	}
	if s.cfg.PeerAddr != "" {
		leave("the copy into a mapped file", "it says nothing of two machines")
		s.cfg.Carriers = slices.DeleteFunc(slices.Clone(s.cfg.Carriers), func(name string) bool {
			c, _ := carrierOf(name)
			if c.SameHost {
				leave("the carrier "+name, "it is for processes of one machine")
			}
			return c.SameHost
		})
	}
	if !s.cfg.FullRuns {
		leave("targets about whole runs", "--runs was not asked for")
	}
	if s.cfg.IPerf {
		if why := tool.CheckInstalled("iperf3"); why != nil {
			leave("iperf3", why)
			s.cfg.IPerf = false
		}
	}
	if s.cfg.MPI {
		why := errors.New("it is run on one machine")
		if s.cfg.PeerAddr == "" {
			s.mpi, why = newMPI(ctx, "shift", shiftSource)
		}
		if why != nil {
			leave("OpenMPI", why)
			s.cfg.MPI = false
		}
	}
	return ctx.Err()
}

func (s *session) cleanUp() {
	if s.copies != nil {
		_ = s.copies.close() // Sweep removes the segment at the latest
	}
	if s.mpi != nil {
		s.mpi.close()
	}
}

// references lists the references that are measured beside the smallest writes, or beside the others.
func (s *session) references(small bool) []string {
	var out []string
	for i := range references {
		if r := &references[i]; r.forSmallWrites == small && r.applies(&s.cfg) {
			out = append(out, r.name)
		}
	}
	return out
}

// plan lists the tasks of a round in blocks, and where each block ends. A block has one size and the references that
// belong to it, so that the two figures of a ratio are taken within seconds.
func (s *session) plan() (tasks []task, blocks []int) {
	sizes := slices.Sorted(slices.Values(s.cfg.Sizes))
	big := largest(sizes)
	for _, size := range sizes {
		for _, name := range s.cfg.Carriers {
			c, _ := carrierOf(name)
			tasks = append(tasks, task{name + ", " + size.String(), name, linkName(name, int(size)),
				func(ctx context.Context) (trial.Figures, error) { return s.cell(ctx, c, int(size)) }})
		}
		var beside []string
		if size == sizes[0] {
			beside = s.references(true)
		}
		if size == big {
			beside = append(beside, s.references(false)...)
		}
		for _, name := range beside {
			tasks = append(tasks, task{name, name, name,
				func(ctx context.Context) (trial.Figures, error) { return s.reference(ctx, name) }})
		}
		blocks = append(blocks, len(tasks))
	}
	if s.cfg.FullRuns {
		for _, c := range carrierRuns(s.cfg.Carriers) {
			name := "run " + runName(c)
			tasks = append(tasks, task{
				name:        name,
				failureUnit: name,
				thing:       c.ID,
				run: func(ctx context.Context) (trial.Figures, error) {
					return c.Measure(ctx, func(ctx context.Context) ([]byte, error) {
						return tool.Command{Program: s.cfg.Program, Args: c.Args}.Run(ctx)
					})
				},
			})
		}
		blocks = append(blocks, len(tasks))
	}
	return tasks, blocks
}

// measure goes through the rounds. A unit that fails is named, and left out from then on. The loss of the far process
// ends the measurement.
func (s *session) measure(ctx context.Context) error {
	tasks, blocks := s.plan()
	turns := trial.DrawOrder(len(tasks), s.cfg.Rounds, 1, blocks)
	done, err := trial.Loop(ctx, turns, func(i int, t trial.Turn) error {
		if t.Round == len(s.rounds) {
			s.rounds, s.report.RoundsDone = append(s.rounds, trial.Round{}), t.Round
		}
		k := &tasks[t.Thing]
		s.cfg.reportProgress(fmt.Sprintf("round %d of %d: %s", t.Round+1, s.cfg.Rounds, k.name), i, len(turns))
		if s.failedUnits[k.failureUnit] {
			return nil
		}
		return s.attempt(ctx, k)
	})
	if done == len(turns) {
		s.report.RoundsDone = s.cfg.Rounds
	}
	return err
}

// attempt runs a task, and returns an error only if the measurement cannot go on.
func (s *session) attempt(ctx context.Context, k *task) error {
	figures, err := k.run(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err == nil {
		s.rounds[len(s.rounds)-1][k.thing] = figures
		return nil
	}
	s.failedUnits[k.failureUnit] = true
	if r := referenceOf(k.failureUnit); r != nil && r.thirdParty {
		s.report.LeftOut = append(s.report.LeftOut, fmt.Sprintf("%s: left out, %v", k.failureUnit, err))
		return nil
	}
	s.report.Failed = append(s.report.Failed, fmt.Sprintf("%s: %s", k.name, strings.ReplaceAll(err.Error(), "\n", "; ")))
	var lost *lostError
	if errors.As(err, &lost) {
		return err
	}
	return nil
}
