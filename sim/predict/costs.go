package predict

import (
	"bytes"
	_ "embed" // the published calibration
	"fmt"
	"io"
	"math"
	"strings"

	"ringlet/internal/safeopen"
	"ringlet/node/config"
	"ringlet/sim"
	"ringlet/sim/study"
)

// Costs are what a calibration says: what software takes of a core and of a wire. A host's processor works for the
// senders and for the receivers on it, so each figure holds at both ends. The first eight are fitted to whole runs; the
// carriers are measured alone.
type Costs struct {
	Part              float64 // s of a core for a part besides its carrier: its write, its place, its acknowledgement
	Packet            float64 // s of a core for a packet that goes through a card, besides its carrier
	Byte              float64 // s of a core for a byte that goes through a card, besides its carrier
	Message           float64 // s of a core for a message of a barrier
	MessageDelay      float64 // s that any message takes besides: the waking of a process, and the way through it
	IdleShare         float64 // share of a transfer's time by which it takes longer: ports stand idle while a host is busy
	OtherLoad         float64 // time that other programs take of the cores, over the time that is left for these
	RetransmitTimeout float64 // s that a sender waits before it sends a packet again that is not lost; longer each time

	Carriers [len(carriers)]Carrier
}

// Carrier is what a carrier of remote writes takes, at each end.
type Carrier struct {
	Part            float64 // s of a core for a write
	Packet          float64 // s of a core for a datagram
	Byte            float64 // s of a core for a byte
	MaxDatagramData float64 // B of data in one at most; 0: as the MTU has room for
}

// carriers that may be measured, in the order of Costs.Carriers.
var carriers = [...]string{"quic", "quic-go", "stream", local}

// local is the carrier within a host, and what every node has to itself.
const local = "local"

// carrierCosts is where the carrier of that name stands.
func (c *Costs) carrierCosts(name string) *Carrier {
	for i := range carriers {
		if carriers[i] == name {
			return &c.Carriers[i]
		}
	}
	return nil
}

// carrier is what one takes; nothing if it was not measured.
func (c *Costs) carrier(name string) Carrier {
	if x := c.carrierCosts(name); x != nil {
		return *x
	}
	return Carrier{}
}

// halveDataWork has the processors do all work on data in half the time.
func (c *Costs) halveDataWork() {
	c.Part, c.Packet, c.Byte = c.Part/2, c.Packet/2, c.Byte/2
	for i := range c.Carriers {
		x := &c.Carriers[i]
		x.Part, x.Packet, x.Byte = x.Part/2, x.Packet/2, x.Byte/2
	}
}

// Calibration is costs, and where they come from.
type Calibration struct {
	Costs
	Origin string
	Name   string // of its file
}

// String says in one sentence which calibration it is.
func (c *Calibration) String() string { return fmt.Sprintf("costs of %s: %s", c.Name, c.Origin) }

// costsFile is a calibration as it is written.
type costsFile struct {
	Origin   string           `yaml:"origin"`
	Costs    costsWritten     `yaml:"costs"`
	Carriers []carrierWritten `yaml:"carriers"`
}

type costsWritten struct {
	Part              study.Quantity `yaml:"part"`
	Packet            study.Quantity `yaml:"packet"`
	Byte              study.Quantity `yaml:"byte"`
	Message           study.Quantity `yaml:"message"`
	Flight            study.Quantity `yaml:"flight"`
	Idle              study.Quantity `yaml:"idle"`
	Others            study.Quantity `yaml:"others"`
	RetransmitTimeout study.Quantity `yaml:"patience"`
}

type carrierWritten struct {
	Name     string         `yaml:"name" enum:"quic,quic-go,stream,local"`
	Part     study.Quantity `yaml:"part"`
	Packet   study.Quantity `yaml:"packet"`
	Byte     study.Quantity `yaml:"byte"`
	Datagram study.Quantity `yaml:"datagram"`
}

// costEntry is a key of a calibration.
type costEntry struct {
	key       string
	quantity  *study.Quantity
	dimension study.Dimension
	target    *float64
}

func (w *costsWritten) figures(c *Costs) []costEntry {
	return []costEntry{
		{"part", &w.Part, study.Time, &c.Part},
		{"packet", &w.Packet, study.Time, &c.Packet},
		{"byte", &w.Byte, study.Time, &c.Byte},
		{"message", &w.Message, study.Time, &c.Message},
		{"flight", &w.Flight, study.Time, &c.MessageDelay},
		{"idle", &w.Idle, study.Count, &c.IdleShare},
		{"others", &w.Others, study.Count, &c.OtherLoad},
		{"patience", &w.RetransmitTimeout, study.Time, &c.RetransmitTimeout},
	}
}

func (w *carrierWritten) figures(c *Carrier) []costEntry {
	return []costEntry{
		{"part", &w.Part, study.Time, &c.Part},
		{"packet", &w.Packet, study.Time, &c.Packet},
		{"byte", &w.Byte, study.Time, &c.Byte},
		{"datagram", &w.Datagram, study.Bytes, &c.MaxDatagramData},
	}
}

// checkFigures takes figures that stand at a place of the file, each of which must be there.
func checkFigures(d *config.Document, at string, figures []costEntry) {
	for _, x := range figures {
		switch {
		case d.Err() != nil:
		case !d.Contains(at + "." + x.key):
			d.AddProblem(at, "%s is missing: make the file again with ringlet predict --calibrate", x.key)
		case x.quantity.Value != 0 && x.quantity.Dimension != x.dimension || x.quantity.Value < 0 || x.quantity.Value > 1e6:
			d.AddProblem(at+"."+x.key, "%v cannot be", *x.quantity)
		}
		*x.target = x.quantity.Value
	}
}

// parseCosts reads a calibration. What is wrong with it is a *config.InvalidError.
func parseCosts(name string, in io.Reader) (*Calibration, error) {
	var f costsFile
	d, err := config.Read(name, in, &f)
	if err != nil {
		return nil, err
	}
	c := &Calibration{Origin: strings.TrimSpace(f.Origin), Name: name}
	if c.Origin == "" {
		d.AddProblem("", "origin is missing: say on which machine, and when, the costs were measured")
	}
	checkFigures(d, "costs", f.Costs.figures(&c.Costs))
	seen := map[string]bool{}
	for i := range f.Carriers {
		at, w := fmt.Sprintf("carriers[%d]", i), &f.Carriers[i]
		into := c.carrierCosts(w.Name)
		if into == nil || seen[w.Name] {
			d.AddProblem(at, "the carrier %q is not known, or there twice", w.Name)
			continue
		}
		seen[w.Name] = true
		checkFigures(d, at, w.figures(into))
	}
	return c, d.Err()
}

// published is what ringlet predict assumes where nobody has measured: the calibration of study.yaml.
//
//go:embed published/costs.yaml
var published []byte

// Published is the published calibration, of a machine with two cores.
func Published() (*Calibration, error) {
	return parseCosts("sim/predict/published/costs.yaml", bytes.NewReader(published))
}

// LoadCosts reads a calibration's file.
func LoadCosts(path string) (*Calibration, error) {
	in, err := safeopen.Open(path)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	return parseCosts(path, in)
}

// Write writes a calibration: the costs, and how far the points are off that they were fitted to.
func (c *Calibration) Write(out io.Writer, judged []JudgedPoint) error {
	if err := writeSummary(out, "# ", judged); err != nil {
		return err
	}
	var w costsWritten
	fmt.Fprintf(out, "origin: %q\ncosts:\n", c.Origin)
	for _, x := range w.figures(&c.Costs) {
		q := study.Q(*x.target, x.dimension)
		if x.dimension == study.Count {
			q = study.Share(*x.target)
		}
		fmt.Fprintf(out, "  %s: %v\n", x.key, q)
	}
	fmt.Fprintln(out, "carriers:")
	for i := range carriers {
		var w carrierWritten
		if c.Carriers[i] == (Carrier{}) {
			continue
		}
		fmt.Fprintf(out, "  - name: %s\n", carriers[i])
		for _, x := range w.figures(&c.Carriers[i]) {
			fmt.Fprintf(out, "    %s: %v\n", x.key, study.Q(*x.target, x.dimension))
		}
	}
	return nil
}

// ticks is a time of the simulator, to the nearest picosecond.
func ticks(s float64) sim.Time { return sim.Time(math.Round(s * float64(sim.Second))) }
