package predict

import (
	"io"
	"math"

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
	From   string       `yaml:"from"` // which measurements, and how they were chosen
	Seed   uint64       `yaml:"seed"`
	Points int          `yaml:"points"`
	Error  string       `yaml:"error"` // median and worst of the points that it was fitted to
	Is     costsWritten `yaml:"costs"`
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

// ParseCosts reads a calibration. What is wrong with it is a *config.InvalidError.
func ParseCosts(name string, in io.Reader) (Costs, error) {
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

// ticks is a time of the simulator, to the nearest picosecond.
func ticks(s float64) sim.Time { return sim.Time(math.Round(s * float64(sim.Second))) }
