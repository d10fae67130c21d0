package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"time"

	"ringlet/node/config"
	"ringlet/node/hostlimits"
)

// round is what one round has measured.
type round struct {
	cells map[cellKey]cellResult
	refs  map[string]refResult
	runs  map[string]runResult
}

func newRound() *round {
	return &round{map[cellKey]cellResult{}, map[string]refResult{}, map[string]runResult{}}
}

// task is one measurement of a round.
type task struct {
	name string // what is told to who waits
	unit string // carrier, reference or run: one that failed is not tried again
	run  func(ctx context.Context, r *round) error
}

// session is a whole measurement under way.
type session struct {
	near
	report Report
	rounds []*round
	failed map[string]bool // units
	limits []HostLimit
}

// Run measures until all rounds are through or ctx is over, and reports what it has; what failed on the way stands in
// the report. The report is nil only where nothing could be begun. It comes with an error where the far process was
// lost.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Log == nil {
		cfg.Log = io.Discard
	}
	started := time.Now()
	cfg.progress("starting", 0, 1)
	conn, stop, err := cfg.Start()
	if err != nil {
		return nil, err
	}
	defer stop()
	defer func() { _ = conn.Close() }()
	s := &session{near: near{cfg: cfg, conn: conn, source: newSource(&cfg)}, failed: map[string]bool{}}
	s.report = Report{
		Version: cfg.Version, Started: started.UTC().Format(time.RFC3339), Peer: cfg.Peer, Rounds: cfg.Rounds,
		DurationS: cfg.Duration.Seconds(),
		SpinUs:    cfg.Spin.Microseconds(), Procs: runtime.GOMAXPROCS(0), Cores: runtime.NumCPU(), Memory: int64(cfg.Memory),
	}
	defer s.cleanUp()
	if err = errors.Join(s.meet(ctx), ctx.Err()); err == nil {
		err = s.prepare(ctx)
	}
	if err == nil {
		err = s.measure(ctx)
	} else if ctx.Err() == nil {
		return nil, err // nothing could be begun
	}
	if s.report.Interrupted = ctx.Err() != nil; s.report.Interrupted {
		err = nil
	}
	s.report.Limits = s.limits
	s.report.summarize(s.cfg.Carriers, s.cfg.Spin > 0, s.cfg.Runs, s.rounds)
	return &s.report, err
}

// meet begins the session with the far process.
func (s *session) meet(ctx context.Context) error {
	here := hostlimits.Read(s.cfg.Host) // before the memory is taken
	s.mtu = here.MTU
	a, err := ask(ctx, s.conn, request{Hello: &helloArgs{
		Protocol: protocol, Memory: int64(s.cfg.Memory), SpinNs: s.cfg.Spin.Nanoseconds(), Procs: s.cfg.Procs,
		Name: s.cfg.Identity.Name,
	}})
	if err != nil {
		return err
	}
	if a.Protocol != protocol || a.Limits == nil {
		return &messageError{"its answer to hello is none"}
	}
	busy := 1
	if s.cfg.Peer == "" {
		busy = 2
	}
	for _, f := range hostlimits.Judge(here, s.cfg.wants(busy)) {
		s.limits = append(s.limits, HostLimit{"near", f})
	}
	if s.cfg.Peer != "" {
		for _, f := range hostlimits.Judge(*a.Limits, s.cfg.wants(busy)) {
			s.limits = append(s.limits, HostLimit{"far", f})
		}
		s.mtu = min(s.mtu, a.Limits.MTU)
	}
	return nil
}

// prepare makes what the references need, and says what is left out.
func (s *session) prepare(ctx context.Context) (err error) {
	leave := func(what string, why any) {
		s.report.LeftOut = append(s.report.LeftOut, fmt.Sprintf("%s: left out, %v", what, why))
	}
	if s.cfg.Peer == "" {
		if s.copies, err = newCopies(int(s.cfg.Memory), s.source); err != nil {
			return err
		}
	} else {
		leave("the copy into a mapped file", "it says nothing of two machines")
		s.cfg.Carriers = slices.DeleteFunc(slices.Clone(s.cfg.Carriers), func(name string) bool {
			c, _ := carrierOf(name)
			if c.SameHost {
				leave("the carrier "+name, "it is for processes of one machine")
			}
			return c.SameHost
		})
	}
	if !s.cfg.Runs {
		leave("targets about whole runs", "--runs was not asked for")
	}
	if s.cfg.IPerf {
		if why := missing("iperf3"); why != nil {
			leave("iperf3", why)
			s.cfg.IPerf = false
		}
	}
	if s.cfg.MPI {
		why := errors.New("it is run on one machine")
		if s.cfg.Peer == "" {
			s.mpi, why = newMPI(ctx)
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
		_ = s.copies.close() // the segment goes with the process at the latest: Sweep
	}
	if s.mpi != nil {
		s.mpi.close()
	}
}

// references that are measured.
func (s *session) references() []string {
	out := []string{refUDP, refTCP, refQUIC}
	if s.copies != nil {
		out = append(out, refCopy)
	}
	if s.cfg.IPerf {
		out = append(out, refIPerf)
	}
	if s.cfg.MPI {
		out = append(out, refMPIShm, refMPITCP)
	}
	return out
}

// smallReferences are those of the smallest writes.
func (s *session) smallReferences() []string {
	out := []string{refTrip}
	if s.cfg.Spin > 0 {
		out = append(out, refTripSpin)
	}
	if s.copies != nil {
		out = append(out, refCopySmall)
	}
	return out
}

// plan divides a round into blocks: one for each size, with the references that belong to it, so that a ratio is of two
// figures that are seconds apart.
func (s *session) plan() [][]task {
	sizes := slices.Clone(s.cfg.Sizes)
	slices.Sort(sizes)
	big := sizes[len(sizes)-1]
	if slices.Contains(sizes, blockSize) {
		big = blockSize
	}
	var blocks [][]task
	for _, size := range sizes {
		var block []task
		for _, name := range s.cfg.Carriers {
			block = append(block, s.cellTask(name, int(size)))
		}
		if size == sizes[0] {
			for _, name := range s.smallReferences() {
				block = append(block, s.referenceTask(name))
			}
		}
		if size == big {
			for _, name := range s.references() {
				block = append(block, s.referenceTask(name))
			}
		}
		blocks = append(blocks, block)
	}
	if s.cfg.Runs {
		blocks = append(blocks, s.runTasks())
	}
	return blocks
}

func (s *session) cellTask(name string, size int) task {
	c, _ := carrierOf(name)
	return task{fmt.Sprintf("%s, %s", name, config.Bytes(size)), name, func(ctx context.Context, r *round) error {
		res, err := s.cell(ctx, c, size)
		if err == nil {
			r.cells[cellKey{name, size}] = res
		}
		return err
	}}
}

func (s *session) referenceTask(name string) task {
	return task{name, name, func(ctx context.Context, r *round) error {
		res, err := s.reference(ctx, name)
		if err == nil {
			r.refs[name] = res
		}
		return err
	}}
}

// turned is the order of n things in a round: it begins one later each time.
func turned(n, round int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = (i + round) % n
	}
	return out
}

// measure goes through the rounds. A unit that fails is named and left out from then on; a lost far process ends it
// all.
func (s *session) measure(ctx context.Context) error {
	blocks := s.plan()
	total := 0
	for _, b := range blocks {
		total += len(b)
	}
	done := 0
	for n := range s.cfg.Rounds {
		r := newRound()
		s.rounds = append(s.rounds, r)
		for _, b := range turned(len(blocks), n) {
			for _, t := range turned(len(blocks[b]), n) {
				k := blocks[b][t]
				s.cfg.progress(fmt.Sprintf("round %d of %d: %s", n+1, s.cfg.Rounds, k.name), done, total*s.cfg.Rounds)
				done++
				if s.failed[k.unit] {
					continue
				}
				if err := s.attempt(ctx, k, r); err != nil {
					return err
				}
			}
		}
		s.report.RoundsDone++
	}
	return nil
}

// foreign are references by programs of others: that one is missing on the far machine, or does not work, is no fault
// of what is measured.
var foreign = []string{refIPerf, refMPIShm, refMPITCP}

// attempt runs a task and gives the error that ends everything.
func (s *session) attempt(ctx context.Context, k task, r *round) error {
	err := k.run(ctx, r)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err == nil {
		return nil
	}
	s.failed[k.unit] = true
	if slices.Contains(foreign, k.unit) {
		s.report.LeftOut = append(s.report.LeftOut, fmt.Sprintf("%s: left out, %v", k.unit, err))
		return nil
	}
	s.report.Failed = append(s.report.Failed, fmt.Sprintf("%s: %s", k.name, strings.ReplaceAll(err.Error(), "\n", "; ")))
	var lost *lostError
	if errors.As(err, &lost) {
		return err
	}
	return nil
}
