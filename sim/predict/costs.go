package predict

import (
	"bytes"
	_ "embed" // the published calibration
	"fmt"
	"io"
	"math"

	"ringlet/internal/regular"
	"ringlet/node/config"
	"ringlet/sim"
	"ringlet/sim/study"
)

// Costs are what a calibration fits: what software takes of a core and of a wire. A host's processor works for the
// senders and for the receivers on it, so each figure holds at both ends.
type Costs struct {
	Part     float64 // s of a core for a part: its write, its place, its acknowledgement
	Packet   float64 // s of a core for a packet
	Byte     float64 // s of a core for a byte
	Message  float64 // s of a core for a message of a barrier
	Flight   float64 // s that any message takes besides: the waking of a process, and the way through it
	Header   float64 // B on the wire for each packet
	Patience float64 // s that a sender waits before it sends a packet again that is not lost; longer each time
}

// costsFile is a calibration as it is written.
type costsFile struct {
	Is costsWritten `yaml:"costs"`
}

type costsWritten struct {
	Part     study.Quantity `yaml:"part"`
	Packet   study.Quantity `yaml:"packet"`
	Byte     study.Quantity `yaml:"byte"`
	Message  study.Quantity `yaml:"message"`
	Flight   study.Quantity `yaml:"flight"`
	Header   study.Quantity `yaml:"header"`
	Patience study.Quantity `yaml:"patience"`
}

// parseCosts reads a calibration. What is wrong with it is a *config.InvalidError.
func parseCosts(name string, in io.Reader) (Costs, error) {
	var f costsFile
	d, err := config.Read(name, in, &f)
	if err != nil {
		return Costs{}, err
	}
	w := &f.Is
	var c Costs
	for _, x := range []struct {
		key  string
		q    study.Quantity
		of   study.Dimension
		into *float64
	}{
		{"part", w.Part, study.Time, &c.Part},
		{"packet", w.Packet, study.Time, &c.Packet},
		{"byte", w.Byte, study.Time, &c.Byte},
		{"message", w.Message, study.Time, &c.Message},
		{"flight", w.Flight, study.Time, &c.Flight},
		{"header", w.Header, study.Bytes, &c.Header},
		{"patience", w.Patience, study.Time, &c.Patience},
	} {
		switch {
		case d.Err() != nil:
		case !d.Given("costs." + x.key):
			d.Add("costs", "%s is missing: make the file again with ringlet predict --calibrate", x.key)
		case x.q.Of != x.of || x.q.Value < 0 || x.q.Value > 1e6:
			d.Add("costs."+x.key, "%v cannot be", x.q)
		}
		*x.into = x.q.Value
	}
	return c, d.Err()
}

// published is what ringlet predict assumes where nobody has measured: the calibration of study.yaml.
//
//go:embed published/costs.yaml
var published []byte

// Published are the costs of the published calibration, on a machine with two cores.
func Published() (Costs, error) {
	return parseCosts("published/costs.yaml", bytes.NewReader(published))
}

// LoadCosts reads a calibration's file.
func LoadCosts(path string) (Costs, error) {
	in, err := regular.Open(path)
	if err != nil {
		return Costs{}, err
	}
	defer in.Close()
	return parseCosts(path, in)
}

// Write writes a calibration: the costs, and how far the points are off that they were fitted to, and the others.
func (c Costs) Write(out io.Writer, all []Judged) error {
	for _, fit := range []bool{true, false} {
		if err := writeSummary(out, "# ", all, fit); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(out, "costs:\n  part: %v\n  packet: %v\n  byte: %v\n  message: %v\n  flight: %v\n"+
		"  header: %v\n  patience: %v\n", study.Q(c.Part, study.Time), study.Q(c.Packet, study.Time),
		study.Q(c.Byte, study.Time), study.Q(c.Message, study.Time), study.Q(c.Flight, study.Time),
		study.Q(c.Header, study.Bytes), study.Q(c.Patience, study.Time))
	return err
}

// ticks is a time of the simulator, to the nearest picosecond.
func ticks(s float64) sim.Time { return sim.Time(math.Round(s * float64(sim.Second))) }
