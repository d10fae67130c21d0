package predict

import (
	"fmt"
	"io"
	"math"
	"path/filepath"
	"time"

	"ringlet/barrier"
	"ringlet/event/pattern"
	"ringlet/event/placing"
	"ringlet/internal/safeopen"
	"ringlet/lab/topology"
	"ringlet/node/config"
	"ringlet/readoutunit"
	"ringlet/sim/study"
)

// File describes a cluster, and a configuration of Ringlet on it.
type File struct {
	Title  string  `yaml:"title"`
	Hosts  Cluster `yaml:"cluster"`
	Setup  Setup   `yaml:"configuration"`
	Seed   uint64  `yaml:"seed"`
	source *config.Document

	network *topology.Topology // nil: one switch
}

// Cluster describes the hosts and their network.
type Cluster struct {
	Hosts    int             `yaml:"hosts"`    // 0: a host for each node
	Cores    int             `yaml:"cores"`    // of a host
	Shared   bool            `yaml:"shared"`   // all hosts are namespaces of one machine and share its cores
	Port     *study.Quantity `yaml:"port"`     // of a host, each way
	Latency  *study.Quantity `yaml:"latency"`  // of a switch and the cable to it; nil: 1 µs
	Queue    *study.Quantity `yaml:"queue"`    // of a port of a switch; nil: 1 MB
	MTU      *study.Quantity `yaml:"mtu"`      // nil: 1500 B
	Memory   *study.Quantity `yaml:"memory"`   // of a host; nil: no limit
	Lossless bool            `yaml:"lossless"` // a full port blocks those before it; else senders adapt their rate
	Topology string          `yaml:"topology"` // topology file of ringlet plan, relative to this file; "" = one switch
}

// Setup is Ringlet's configuration, by the names of its settings.
type Setup struct {
	Nodes        int     `yaml:"nodes"`
	RUs          int     `yaml:"rus"`
	BUs          int     `yaml:"bus"`
	Discipline   string  `yaml:"discipline" enum:"shift,push,tagring,tagring-wait,pull,free"`
	PhaseEnd     string  `yaml:"phase-end" enum:"none,central,tournament,dissemination"`
	Packing      int     `yaml:"packing"`
	FragmentSize int     `yaml:"fragment-size"`
	Model        string  `yaml:"fragment-model" enum:"lhcb,poisson,constant"`
	Streams      int     `yaml:"streams"` // of each readout unit
	Sources      int     `yaml:"sources"` // of all units, as evenly as possible; 0: by streams
	Slots        int     `yaml:"slots"`
	LookAhead    int     `yaml:"look-ahead"` // issued, not complete; 0: half the slots, at least two; with pull, all
	Transport    string  `yaml:"transport" enum:"quic,quic-go,stream,local"`
	Rate         float64 `yaml:"rate"` // events per second; 0: as many as possible
	PullWindow   int     `yaml:"pull-window"`

	SuspendEvery time.Duration `yaml:"suspend-every"`
	SuspendFor   time.Duration `yaml:"suspend-for"`
	LargeEvery   int           `yaml:"large-every"`
	LargeFactor  int           `yaml:"large-factor"`
	LargeRU      int           `yaml:"large-ru"`
	Duration     time.Duration `yaml:"duration"` // of a run with suspensions
}

// MostNodes is the largest number of nodes of a prediction.
const MostNodes = 1000

// Load reads a file. If it is invalid, the error is a *config.InvalidError that names the line and the key.
func Load(path string) (*File, error) {
	in, err := safeopen.Open(path)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	f, err := parse(path, in)
	if err != nil || f.Hosts.Topology == "" {
		return f, err
	}
	name := f.Hosts.Topology
	if !filepath.IsAbs(name) {
		name = filepath.Join(filepath.Dir(path), name)
	}
	if f.network, err = topology.Load(name); err != nil {
		return nil, err
	}
	if f.Hosts.Lossless && f.network.Kind() != "fat-tree" {
		f.source.AddProblem("cluster.lossless",
			"the rings of a torus would hold up each other: leave it out, or give a fat tree")
	}
	return f, f.source.Err()
}

// A tooFewNodesError is a topology with too few nodes.
type tooFewNodesError struct {
	File        string
	Have, Needs int
}

func (e *tooFewNodesError) Error() string {
	return fmt.Sprintf("%s has %d nodes, and %d hosts are to stand there: ask for fewer, or give a larger topology",
		e.File, e.Have, e.Needs)
}

// parse reads a file's text.
func parse(name string, in io.Reader) (*File, error) {
	f := &File{Seed: 1, Setup: defaults()}
	f.Hosts.Cores = 1
	d, err := config.Read(name, in, f)
	if err != nil {
		return nil, err
	}
	f.source = d
	if d.Err() == nil {
		f.check()
	}
	if err := d.Err(); err != nil {
		return nil, err
	}
	f.Setup.complete()
	return f, nil
}

// defaults are the defaults of Ringlet's settings.
func defaults() Setup {
	return Setup{
		Discipline:   "shift",
		PhaseEnd:     "tournament",
		Packing:      4000,
		FragmentSize: defaultFragment,
		Model:        "lhcb",
		Streams:      3,
		Slots:        5,
		Transport:    "quic",
		Duration:     5 * time.Second,
		LargeFactor:  5,
	}
}

// complete sets the numbers of units that are not given: as many of each kind.
func (c *Setup) complete() {
	if c.RUs == 0 {
		c.RUs, c.BUs = c.Nodes, c.Nodes
	}
	if c.Nodes == 0 {
		c.Nodes = c.RUs + c.BUs
	}
	if c.LookAhead == 0 {
		c.LookAhead = max(2, c.Slots/2)
		if d := c.discipline(); d != nil && d.Pull {
			c.LookAhead = c.Slots
		}
	}
	if c.PullWindow == 0 {
		c.PullWindow = c.RUs * c.Slots
	}
}

// ofNodes is the configuration with another number of folded nodes.
func (c Setup) ofNodes(n int) Setup {
	c.Nodes, c.RUs, c.BUs, c.PullWindow = n, n, n, 0
	c.complete()
	return c
}

// division has the sources of each readout unit.
func (c *Setup) division() placing.Division {
	if c.Sources > 0 {
		return placing.SpreadDivision(c.Sources, c.RUs)
	}
	return placing.EvenDivision(c.RUs, c.Streams)
}

// check reports what struct tags cannot check.
func (f *File) check() {
	h, c, d := &f.Hosts, &f.Setup, f.source
	within := func(path string, v, least, most int) {
		if v < least || v > most {
			d.AddProblem(path, "%d is not between %d and %d", v, least, most)
		}
	}
	within("cluster.hosts", h.Hosts, 0, MostNodes)
	within("cluster.cores", h.Cores, 1, 1024)
	of := func(path string, q *study.Quantity, of study.Dimension, least, most float64) {
		if q != nil && (q.Dimension != of || q.Value < least || q.Value > most) {
			d.AddProblem(path, "%v is not between %v and %v", q, study.Q(least, of), study.Q(most, of))
		}
	}
	of("cluster.port", h.Port, study.Bandwidth, 1e4, 1e12)
	of("cluster.latency", h.Latency, study.Time, 0, 1)
	of("cluster.queue", h.Queue, study.Bytes, 1<<10, 1<<40)
	of("cluster.mtu", h.MTU, study.Bytes, 576, 1<<16)
	of("cluster.memory", h.Memory, study.Bytes, 1<<20, 1<<50)
	if h.Port == nil && h.Hosts != 1 {
		d.AddProblem("cluster", "port is missing: give the rate of a host's port, such as 200 Gbit/s, or hosts: 1")
	}
	if c.Transport == local && h.Hosts != 1 {
		d.AddProblem("configuration.transport", "local goes within one host: give hosts: 1, or another transport")
	}
	if (c.RUs == 0) != (c.BUs == 0) || c.RUs == 0 && c.Nodes == 0 {
		d.AddProblem("configuration", "give nodes, or rus and bus")
	}
	within("configuration.nodes", c.Nodes, 0, MostNodes)
	within("configuration.rus", c.RUs, 0, MostNodes)
	within("configuration.bus", c.BUs, 0, MostNodes)
	within("configuration.packing", c.Packing, 1, math.MaxUint16)
	within("configuration.fragment-size", c.FragmentSize, 0, math.MaxUint16)
	within("configuration.streams", c.Streams, 1, 1024)
	within("configuration.sources", c.Sources, 0, pattern.MaxSources)
	within("configuration.slots", c.Slots, 1, 4096)
	within("configuration.look-ahead", c.LookAhead, 0, 4096)
	within("configuration.pull-window", c.PullWindow, 0, 1<<20)
	if !(c.Rate >= 0 && c.Rate <= 1e12) {
		d.AddProblem("configuration.rate", "%v is not between 0 and 1e12", c.Rate)
	}
	f.checkDebug(within)
	if _, err := barrier.ParseKind(c.PhaseEnd); err != nil {
		d.AddProblem("configuration.phase-end", "%v", err)
	}
}

// checkDebug checks the disturbances.
func (f *File) checkDebug(within func(path string, v, least, most int)) {
	c := &f.Setup
	if c.SuspendFor < 0 || c.SuspendEvery < 0 || c.SuspendFor > 0 && c.SuspendEvery <= c.SuspendFor {
		f.source.AddProblem("configuration", "suspend-for must be less than suspend-every, and neither may be negative")
	}
	if c.Duration <= 0 || c.Duration > time.Hour {
		f.source.AddProblem("configuration.duration", "%v is not between 0 and 1h", c.Duration)
	}
	within("configuration.large-every", c.LargeEvery, 0, 1<<20)
	within("configuration.large-factor", c.LargeFactor, 1, 1000)
	within("configuration.large-ru", c.LargeRU, 0, MostNodes)
}

// discipline is the discipline's row in the product's table.
func (c *Setup) discipline() *readoutunit.Discipline {
	for i := range readoutunit.Disciplines {
		if d := &readoutunit.Disciplines[i]; d.Name == c.Discipline {
			return d
		}
	}
	return nil // the file's enum allows only its rows
}

// barrier is the barrier that ends phases, or None.
func (c *Setup) barrier() barrier.Kind {
	if !c.discipline().Phases {
		return barrier.None
	}
	k, _ := barrier.ParseKind(c.PhaseEnd)
	return k
}

// defaultFragment is the default of Ringlet's setting: the detector of LHCb-EB §V.A.
const defaultFragment = 133
