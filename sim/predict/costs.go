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

// Costs are the costs of a calibration: processor time and wire time of software. A host's processors work for the
// senders and the receivers on it, so each cost holds at both ends. The first eight are fitted to whole runs; carriers
// are measured alone.
type Costs struct {
	Part              float64 // s of a core for a part besides its carrier: its write, its placement, its acknowledgement
	Packet            float64 // s of a core for a packet through a card, besides its carrier
	Byte              float64 // s of a core for a byte through a card, besides its carrier
	Message           float64 // s of a core for a message of a barrier
	MessageDelay      float64 // s of delay of any message: waking a process, and the path through it
	IdleShare         float64 // share of a transfer's time that is added: ports idle while a host is busy
	OtherLoad         float64 // cores' time for other programs, over the time left for this one
	RetransmitTimeout float64 // s until a sender resends a packet that is not lost; longer each time

	Carriers [len(carriers)]Carrier
}

// Carrier has the costs of a carrier of remote writes, at each end.
type Carrier struct {
	Part            float64 // s of a core for a write
	Packet          float64 // s of a core for a datagram
	Byte            float64 // s of a core for a byte
	MaxDatagramData float64 // most bytes of data in a datagram; 0: as the MTU allows
}

// carriers are the measurable carriers, in the order of Costs.Carriers.
var carriers = [...]string{"quic", "quic-go", "stream", local}

// local is the carrier within a host, and of every node's part for itself.
const local = "local"

// carrierCosts returns the costs of the carrier of that name, or nil.
func (c *Costs) carrierCosts(name string) *Carrier {
	for i := range carriers {
		if carriers[i] == name {
			return &c.Carriers[i]
		}
	}
	return nil
}

// carrier returns a carrier's costs; all 0 if it was not measured.
func (c *Costs) carrier(name string) Carrier {
	if x := c.carrierCosts(name); x != nil {
		return *x
	}
	return Carrier{}
}

// halveDataWork halves the processor time of all work on data.
func (c *Costs) halveDataWork() {
	c.Part, c.Packet, c.Byte = c.Part/2, c.Packet/2, c.Byte/2
	for i := range c.Carriers {
		x := &c.Carriers[i]
		x.Part, x.Packet, x.Byte = x.Part/2, x.Packet/2, x.Byte/2
	}
}

// Calibration is costs with their origin.
type Calibration struct {
	Costs
	Origin string
	Name   string // of the file
}

// String describes the calibration in one sentence.
func (c *Calibration) String() string { return fmt.Sprintf("costs of %s: %s", c.Name, c.Origin) }

// costsFile is a calibration as written.
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

// checkFigures reads figures at a place of the file; each must be there.
func checkFigures(d *config.Document, at string, figures []costEntry) {
	for _, x := range figures {
		switch {
		case d.Err() != nil:
		case !d.Contains(at + "." + x.key):
			d.AddProblem(at, "%s is missing: make the file again with ringlet predict --calibrate", x.key)
		case x.quantity.Value != 0 && x.quantity.Dimension != x.dimension || x.quantity.Value < 0 || x.quantity.Value > 1e6:
			d.AddProblem(at+"."+x.key, "%v is not a valid cost", *x.quantity)
		}
		*x.target = x.quantity.Value
	}
}

// parseCosts reads a calibration. If it is invalid, the error is a *config.InvalidError.
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

// published is the calibration that ringlet predict uses by default, made from study.yaml.
//
//go:embed published/costs.yaml
var published []byte

// Published is that calibration, of a machine with two cores.
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

// Write writes a calibration: the costs, and the errors of the points that they were fitted to.
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

// ticks converts seconds, to the nearest picosecond.
func ticks(s float64) sim.Time { return sim.Time(math.Round(s * float64(sim.Second))) }
