package predict

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"

	"ringlet/internal/safeopen"
)

// report has the fields that are read from a report of ringlet bench carriers.
type report struct {
	Version     string `json:"version"`
	Started     string `json:"started"`
	Interrupted bool   `json:"interrupted"`
	Machine     struct {
		CPU   string `json:"cpu"`
		Cores int    `json:"cores"`
	} `json:"machine"`
	Carriers   []reportRow `json:"carriers"`
	References []reportRow `json:"references"`
}

type reportRow struct {
	Carrier       string  `json:"carrier"`
	Name          string  `json:"name"`
	Size          float64 `json:"size"`
	Encrypted     bool    `json:"encrypted"`
	Goodput       median  `json:"goodput_gbps"`
	Datagrams     median  `json:"datagrams_per_s"`
	DatagramBytes median  `json:"datagram_bytes"`
	NearCPU       median  `json:"near_cpu_s_per_gb"`
	FarCPU        median  `json:"far_cpu_s_per_gb"`
}

type median struct {
	Median float64 `json:"median"`
}

// ReportError says what is wrong with a report of ringlet bench carriers.
type ReportError struct{ File, Why string }

func (e *ReportError) Error() string {
	return fmt.Sprintf("%s: %s: make the report with ringlet bench carriers --json", e.File, e.Why)
}

// maxReportBytes bounds a report. A report with seven sizes has some 60 kB.
const maxReportBytes = 16 << 20

// LoadCarriers reads a report of ringlet bench carriers --json, and puts its costs into the calibration. If the report
// is invalid it returns a *ReportError.
func (c *Calibration) LoadCarriers(path string) error {
	in, err := safeopen.Open(path)
	if err != nil {
		return err
	}
	defer in.Close()
	return c.readCarriers(path, in)
}

func (c *Calibration) readCarriers(name string, in io.Reader) error {
	wrong := func(format string, args ...any) error { return &ReportError{name, fmt.Sprintf(format, args...)} }
	text, err := io.ReadAll(io.LimitReader(in, maxReportBytes+1))
	if err != nil {
		return err
	}
	var r report
	if err := json.Unmarshal(text, &r); err != nil || len(text) > maxReportBytes {
		return wrong("this is no such report: %v", err)
	}
	switch {
	case r.Interrupted:
		return wrong("the measurement was interrupted")
	case len(r.Carriers) == 0 || r.Started == "":
		return wrong("it has no carriers, or does not say when it was started")
	}
	var cipher float64 // s per byte
	for _, x := range r.References {
		if x.Name == "seal" {
			cipher = x.NearCPU.Median / 1e9
		}
	}
	rows := map[string][]reportRow{}
	for i := range r.Carriers {
		x := &r.Carriers[i]
		if c.carrierCosts(x.Carrier) == nil {
			return wrong("carriers[%d]: the carrier %q is not known", i, x.Carrier)
		}
		for _, v := range []float64{x.Size, x.Goodput.Median, x.NearCPU.Median, x.FarCPU.Median} {
			if !(v > 0 && v < 1e12) {
				return wrong("carriers[%d]: %s with %v bytes has a size, goodput or CPU time of %v", i, x.Carrier, x.Size, v)
			}
		}
		if d := x.Datagrams.Median; !(d >= 0 && d < 1e12) || !(x.DatagramBytes.Median >= 0 &&
			x.DatagramBytes.Median <= 1<<20) {
			return wrong("carriers[%d]: %v datagrams a second of %v bytes", i, d, x.DatagramBytes.Median)
		}
		rows[x.Carrier] = append(rows[x.Carrier], *x)
	}
	for name, of := range rows {
		if len(of) < 2 {
			return wrong("%s was measured with one size: two or more tell a write from its bytes", name)
		}
		*c.carrierCosts(name) = fitCarrier(name, of, cipher)
	}
	machine := strings.TrimSpace(fmt.Sprintf("%s, %d cores", r.Machine.CPU, r.Machine.Cores))
	c.Origin = strings.TrimPrefix(c.Origin+"; ", "; ") +
		fmt.Sprintf("carriers by ringlet bench carriers (%s) of %s, %s", r.Version, r.Started, machine)
	return nil
}

// fitCarrier fits the costs of a carrier at an end to writes of several sizes: least squares of the relative errors of
// the mean processor time of both ends. For datagrams, bytes cost what the cipher costs, and the rest is the
// datagrams': datagrams have nearly one size, so the measurements do not separate the two. A carrier that has no
// datagrams (local) or does not choose them (stream) has only costs of writes and bytes.
func fitCarrier(name string, rows []reportRow, cipher float64) Carrier {
	var c Carrier
	datagrams := name != local && name != "stream"
	var aa, ab, bb, ac, bc float64
	for _, x := range rows {
		cost := (x.NearCPU.Median + x.FarCPU.Median) / 2 * x.Size / 1e9
		of := x.Size
		if datagrams {
			c.Byte = cipher
			c.MaxDatagramData = max(c.MaxDatagramData, math.Round(x.DatagramBytes.Median))
			cost = max(cost/10, cost-cipher*x.Size)
			of = x.Datagrams.Median * x.Size * 8 / (x.Goodput.Median * 1e9)
		}
		a, b := 1/cost, of/cost
		aa, ab, bb, ac, bc = aa+a*a, ab+a*b, bb+b*b, ac+a, bc+b
	}
	part, each := 0.0, 0.0
	if det := aa*bb - ab*ab; det > 0 {
		part, each = (ac*bb-bc*ab)/det, (bc*aa-ac*ab)/det
	}
	switch { // neither may be below 0
	case part < 0 && bb > 0:
		part, each = 0, bc/bb
	case each < 0:
		part, each = ac/aa, 0
	}
	c.Part = part
	if datagrams {
		c.Packet = each
	} else {
		c.Byte = each
	}
	return c.rounded()
}

// rounded has the costs as a file writes them.
func (c Carrier) rounded() Carrier {
	for _, x := range []*float64{&c.Part, &c.Packet, &c.Byte, &c.MaxDatagramData} {
		*x = roundToFour(*x)
	}
	return c
}
