package bench

import (
	"bytes"
	_ "embed"
	"maps"
	"slices"
	"sync"

	"go.yaml.in/yaml/v3"

	"ringlet/lab/trial"
	"ringlet/node/config"
	"ringlet/transport"
)

// SideRow is one path of the comparison: its goodput, its cost, and its share of the machine's limits.
type SideRow struct {
	Name          string        `json:"name"`
	What          string        `json:"what"`
	Goodput       trial.Spread  `json:"goodput_gbps"`
	BusGoodput    trial.Spread  `json:"bus_gbps"`               // the part that goes from one process to another
	CPU           *trial.Spread `json:"cpu_s_per_gb,omitempty"` // of all processes, per GB of goodput
	RatioToCopy   *trial.Ratio  `json:"of_copy,omitempty"`      // of BusGoodput, as the ratios below
	RatioToCipher *trial.Ratio  `json:"of_cipher,omitempty"`
	RatioToKernel *trial.Ratio  `json:"of_kernel,omitempty"`
}

// Published is a figure that others published. It is embedded with its source; this program never measures it.
type Published struct {
	Who     string  `yaml:"who"     json:"who"`
	What    string  `yaml:"what"    json:"what"`
	Figure  float64 `yaml:"figure"  json:"figure"`
	Unit    string  `yaml:"unit"    json:"unit"`
	Machine string  `yaml:"machine" json:"machine"`
	Source  string  `yaml:"source"  json:"source"`
}

//go:embed published.yaml
var publishedText []byte

// readPublished reads the published figures.
var readPublished = sync.OnceValue(func() []Published {
	var out []Published
	dec := yaml.NewDecoder(bytes.NewReader(publishedText))
	dec.KnownFields(true)
	if err := dec.Decode(&out); err != nil {
		panic(err) // the file is embedded, and a test reads it
	}
	return out
})

// Limits of the machine, each with the references that measure it: the first reference that was measured counts.
var (
	copyLimit   = []string{refCopy}
	cipherLimit = []string{refSeal}
	kernelLimit = []string{refUDP, refIPerf, refTCP}
)

// path is one row of the comparison before its figures are known.
type path struct {
	thing, name, what             string
	busShare                      float64 // share of the goodput that goes from one process to another
	usesCipher, usesKernelNetwork bool    // the path encrypts; the path uses the kernel's network
}

// sealedReferences encrypt; networkReferences use the kernel's network.
var (
	sealedReferences  = []string{refQUIC}
	networkReferences = []string{refUDP, refTCP, refQUIC, refIPerf, refMPITCP}
)

// paths lists the rows of the comparison: each carrier with large writes, the references, and whole runs.
func paths(cfg *Config) []path {
	var out []path
	size := largest(cfg.Sizes)
	for _, c := range transport.Kinds {
		if slices.Contains(cfg.Carriers, c.Name) {
			name := linkName(c.Name, int(size))
			out = append(out, path{
				thing:             name,
				name:              name,
				what:              "one end writes to the other",
				busShare:          1,
				usesCipher:        !c.SameHost,
				usesKernelNetwork: !c.SameHost,
			})
		}
	}
	for i := range references {
		if r := &references[i]; !r.forSmallWrites {
			out = append(out, path{
				thing:             r.name,
				name:              r.name,
				what:              r.what,
				busShare:          1,
				usesCipher:        slices.Contains(sealedReferences, r.name),
				usesKernelNetwork: slices.Contains(networkReferences, r.name),
			})
		}
	}
	if cfg.FullRuns {
		for _, cell := range carrierRuns(cfg.Carriers) {
			c, _ := carrierOf(cell.Config.Transport)
			out = append(out, path{
				thing:             cell.ID,
				name:              runName(cell),
				what:              cell.Says,
				busShare:          cell.CrossingShare(),
				usesCipher:        !c.SameHost,
				usesKernelNetwork: !c.SameHost,
			})
		}
	}
	return out
}

// largest returns the size of writes at which carriers are compared with references: blockSize, which the references
// use, if it was measured; else the largest size that was.
func largest(sizes []config.Bytes) config.Bytes {
	if slices.Contains(sizes, blockSize) {
		return blockSize
	}
	return slices.Max(sizes)
}

// fillSideRows compares all paths that were measured. A share of a limit is a ratio of two figures of one round.
func (r *Report) fillSideRows(cfg *Config, rounds trial.Rounds) {
	r.SideRows, r.Published = []SideRow{}, readPublished()
	all := paths(cfg)
	rounds = addDerivedFigures(rounds, all)
	for _, p := range all {
		row := SideRow{Name: p.name, What: p.what}
		if rounds.Fill(p.thing, &row); row.Goodput.N == 0 {
			continue
		}
		of := func(limits []string) *trial.Ratio {
			ratio := rounds.Ratio(p.thing, "bus_gbps", limits...)
			if ratio == nil || ratio.Reference == p.thing {
				return nil
			}
			return ratio
		}
		row.RatioToCopy = of(copyLimit)
		if p.usesCipher {
			row.RatioToCipher = of(cipherLimit)
		}
		if p.usesKernelNetwork {
			row.RatioToKernel = of(kernelLimit)
		}
		r.SideRows = append(r.SideRows, row)
	}
}

// addDerivedFigures adds to each round what follows from its figures: the bus bandwidth as nccl-tests defines it for an
// all-to-all exchange ((n-1)/n of what n folded nodes build), and the processor time of both ends.
func addDerivedFigures(rounds trial.Rounds, all []path) trial.Rounds {
	out := make(trial.Rounds, len(rounds))
	for i, one := range rounds {
		out[i] = trial.Round{}
		for _, p := range all {
			f := maps.Clone(one[p.thing])
			if gbps, ok := f["goodput_gbps"]; ok {
				f["bus_gbps"] = gbps * p.busShare
			}
			if cpu, ok := f["near_cpu_s_per_gb"]; ok {
				f["cpu_s_per_gb"] = cpu + f["far_cpu_s_per_gb"]
			}
			if f != nil {
				out[i][p.thing] = f
			}
		}
	}
	return out
}
