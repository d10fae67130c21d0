package nodes

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"ringlet/internal/certs"
	"ringlet/internal/cluster"
	"ringlet/internal/config"
	"ringlet/internal/node"
	"ringlet/internal/stopwatch"
)

// Name of the control in the cluster and in its certificate.
const Name = node.ControlName

// Config of a run.
type Config struct {
	Run        config.Config // complete
	Host       string        // address to bind and to tell the nodes
	Port       int           // of the gossip; 0 means any
	TagnetPort int           // of the scheduler; 0 means any
	Identity   *certs.Identity
	Key        []byte // of the gossip
	Version    string
	Spawner    Spawner // nil: nodes join by themselves
	// Patience is how long the nodes may take to appear and to become ready. Zero means 60 s.
	Patience time.Duration
	Timing   cluster.Timing // zero: cluster.TimingFor
	// Began is called when the run begins. Nil means that nobody waits for it.
	Began func()
	// Progress is called about twice a second while the run goes on. Nil means that nobody looks.
	Progress func(Progress)
	Log      *slog.Logger
}

// A Spawner starts and ends node processes.
type Spawner interface {
	// Spawn starts the named nodes, which are to join the cluster at the given address. It tells of every one that ends.
	Spawn(names []string, join string, ended func(name, how string)) error
	// Stop ends all of them and waits.
	Stop()
}

// Once takes the nodes through one run. What is wrong with the configuration, the input or this process's own address is an error
// without a report. A run that ended by a fault, even before it began, has both: the error is a *FaultError.
func Once(ctx context.Context, cfg Config) (*Report, error) {
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if err := Prepare(ctx, &cfg.Run, nil); err != nil {
		return nil, err
	}
	if !sealed(&cfg.Run) {
		cfg.Log.Warn("this run is " + Open)
	}
	c := NewCrew(Options{
		Identity: cfg.Identity, Host: cfg.Host, TagnetPort: cfg.TagnetPort, Version: cfg.Version, Patience: cfg.Patience, Log: cfg.Log,
		Term: NewTerm(ClockTerm(time.Now())),
	}, cfg.Run)
	members, err := cluster.Open(ctx, cluster.Config{
		Name: Name, BindAddr: cfg.Host, BindPort: cfg.Port, Key: cfg.Key, Timing: cfg.Timing, Logger: cfg.Log,
		Meta: cluster.Meta{Roles: cluster.Control, Version: cfg.Version},
	})
	if err != nil {
		return nil, err
	}
	defer func() { _ = members.Close() }()
	if cfg.Spawner != nil {
		defer cfg.Spawner.Stop()
	}
	defer c.Dismiss()
	if err := c.Gather(ctx, members, cfg.Spawner); err != nil {
		return c.NewRun(cfg.Run.RunNumber).neverBegan(ctx, err, "while the nodes gathered")
	}
	return c.once(ctx, &cfg)
}

// once goes from load to the closed accounts.
func (c *Crew) once(ctx context.Context, cfg *Config) (*Report, error) {
	up, cancel := context.WithTimeout(ctx, c.opts.Patience)
	defer cancel()
	if err := c.Load(up); err != nil {
		return c.NewRun(cfg.Run.RunNumber).neverBegan(ctx, err, "before the run began")
	}
	last, short, err := c.CheckOutput(up, c.cfg.RunNumber)
	if err != nil {
		return nil, fmt.Errorf("the output cannot be written: %w", err)
	}
	for _, what := range short {
		c.log.Warn("there is little room for the output", "what", what)
	}
	c.number(last)
	if err := c.Configure(up); err != nil {
		return c.NewRun(c.cfg.RunNumber).neverBegan(ctx, err, "before the run began")
	}
	r := c.NewRun(c.cfg.RunNumber) // now that there is a view
	defer r.Close()
	if err := r.Begin(up); err != nil {
		return r.neverBegan(ctx, err, "before the run began")
	}
	if cfg.Began != nil {
		cfg.Began()
	}
	r.untilEnd(ctx, cfg.Progress)
	defer r.showing(cfg.Progress)()
	report, err := r.Finish()
	if cfg.Spawner != nil && report.Recorded.unread() {
		cfg.Spawner.Stop()
		r.closeAlone(report)
	}
	return report, err
}

// number gives a run that has none the number after the last one that its output holds.
func (c *Crew) number(last uint32) {
	if c.cfg.RunNumber == 0 {
		c.cfg.RunNumber = last + 1
	}
}

// untilEnd waits for whatever ends the run, and drains it.
func (r *Run) untilEnd(ctx context.Context, progress func(Progress)) {
	var limit <-chan time.Time
	if d := r.cfg.Duration; d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		limit = timer.C
	}
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	done := ctx.Done()
	for {
		select {
		case <-r.Drained():
			return
		case <-r.Struck():
			return
		case <-limit:
			limit = nil
			_ = r.Drain(EndDuration) // the scheduler is here
		case <-done:
			done = nil
			_ = r.Drain(EndInterrupted)
		case <-tick.C:
			if progress != nil {
				progress(r.Progress())
			}
			r.letNodesGo(time.Now())
			r.LookForStall(time.Now())
		}
	}
}

// showing shows how the nodes stop, until what it returns is called.
func (r *Run) showing(progress func(Progress)) (end func()) {
	if progress == nil {
		return func() {}
	}
	return stopwatch.Every(progressEvery, func() { progress(r.Progress()) })
}

// letNodesGo lets nodes go that were told to end, and ends the run for those it needs.
func (r *Run) letNodesGo(now time.Time) {
	news, err := r.Depart(now)
	if err != nil {
		r.log.Warn("a node that was told to end cannot be let go yet", "err", err)
	}
	for _, d := range news {
		switch {
		case d.Ends:
			r.log.Warn("a node was told to end, and the run needs it: the run ends in good order", "node", d.Node)
			_ = r.Drain(EndLeaving) // the scheduler is here
		case d.Left:
			r.log.Warn("a node that was told to end has left the run in good order", "node", d.Node)
		default:
			r.log.Warn("a node was told to end, and the run goes on without it",
				"node", d.Node, "meps_for_others", d.Again)
		}
	}
}
