package bench

import (
	"fmt"
	"slices"
	"strings"

	"ringlet/lab/page"
	"ringlet/lab/sweep"
	"ringlet/lab/trial"
	"ringlet/node/hostlimits"
	"ringlet/transport"
)

// Report has the results of a measurement; `ringlet bench carriers --json` prints it. docs/benchmarks.md explains the
// fields.
type Report struct {
	Version     string  `json:"version"`
	Started     string  `json:"started"` // RFC 3339
	Peer        string  `json:"peer,omitempty"`
	Rounds      int     `json:"rounds"`
	RoundsDone  int     `json:"rounds_done"`
	Interrupted bool    `json:"interrupted"`
	DurationS   float64 `json:"duration_s"`
	SpinUs      int64   `json:"spin_us"`
	Procs       int     `json:"procs"`
	Cores       int     `json:"cores"`
	Memory      int64   `json:"memory"` // bytes
	Command     string  `json:"command,omitempty"`

	Machine    page.Machine    `json:"machine"` // near
	SideRows   []SideRow       `json:"side_by_side"`
	Published  []Published     `json:"published"`
	Targets    []trial.Verdict `json:"targets"`
	Carriers   []CarrierRow    `json:"carriers"`
	References []ReferenceRow  `json:"references"`
	Runs       []RunRow        `json:"runs,omitempty"`

	Limits  []HostLimit `json:"limits"`
	LeftOut []string    `json:"left_out"`
	Failed  []string    `json:"failed"`
}

// CarrierRow is a carrier with writes of one size.
type CarrierRow struct {
	Carrier          string        `json:"carrier"`
	Size             int           `json:"size"` // bytes
	Encrypted        bool          `json:"encrypted"`
	Ratio            *trial.Ratio  `json:"ratio,omitempty"` // of goodput
	Goodput          trial.Spread  `json:"goodput_gbps"`
	DatagramRate     trial.Spread  `json:"datagrams_per_s"`
	BytesPerDatagram trial.Spread  `json:"datagram_bytes"` // bytes of the writes in a datagram; 0 without datagrams
	ResentShare      trial.Spread  `json:"resent_share"`
	NearCPU          trial.Spread  `json:"near_cpu_s_per_gb"`
	FarCPU           trial.Spread  `json:"far_cpu_s_per_gb"`
	WriteTimes       trial.Times   `json:"write_us"`
	AnsweredTimes    *trial.Times  `json:"answered_us,omitempty"`
	PieceRate        *trial.Spread `json:"pieces_per_s,omitempty"`
	BytesSent        uint64        `json:"bytes_sent"`   // in all rounds
	PlacedWrites     uint64        `json:"bytes_placed"` // of BytesSent; each window had the bytes of its last write
}

// ReferenceRow is a reference.
type ReferenceRow struct {
	Name         string        `json:"name"`
	What         string        `json:"what"`
	Goodput      *trial.Spread `json:"goodput_gbps,omitempty"`
	LostShare    *trial.Spread `json:"lost_share,omitempty"`
	NearCPU      *trial.Spread `json:"near_cpu_s_per_gb,omitempty"`
	FarCPU       *trial.Spread `json:"far_cpu_s_per_gb,omitempty"`
	TripTimes    *trial.Times  `json:"trip_us,omitempty"`
	BarrierShare *trial.Spread `json:"barrier_share,omitempty"`
}

// RunRow is one kind of whole run.
type RunRow struct {
	Name        string       `json:"name"`
	What        string       `json:"what"`
	Args        []string     `json:"args"`
	Ratio       *trial.Ratio `json:"ratio,omitempty"` // goodput over that of the lossless or unfolded run of the round
	Goodput     trial.Spread `json:"goodput_gbps"`
	EventRate   trial.Spread `json:"event_rate_hz"`
	CPU         trial.Spread `json:"cpu_s_per_gb"`
	ResentShare trial.Spread `json:"resent_share"` // share of the chunks
}

// HostLimit is a limit of a machine that slows the measurement.
type HostLimit struct {
	Host string `json:"host"` // near or far
	hostlimits.Finding
}

// Failure lists the measurements that failed, or is errInterrupted, or nil.
func (r *Report) Failure() error {
	switch {
	case len(r.Failed) > 0:
		return fmt.Errorf("bench: %d measurements failed: %s", len(r.Failed), strings.Join(r.Failed, "; "))
	case r.Interrupted:
		return errInterrupted
	}
	return nil
}

// summarize fills the tables of a report from its rounds, as a pure function.
func (r *Report) summarize(cfg *Config, rounds trial.Rounds) {
	r.fillSideRows(cfg, rounds)
	r.fillCarrierRows(cfg, rounds)
	r.fillReferenceRows(rounds)
	r.Targets = trial.Judge(requestedBounds(cfg), rounds)
	if cfg.FullRuns {
		r.fillRunRows(carrierRuns(cfg.Carriers), rounds)
	}
	for _, list := range []*[]string{&r.LeftOut, &r.Failed} {
		if *list == nil {
			*list = []string{} // JSON: a list, not null
		}
	}
	if r.Limits == nil {
		r.Limits = []HostLimit{}
	}
}

func (r *Report) fillCarrierRows(cfg *Config, rounds trial.Rounds) {
	r.Carriers = []CarrierRow{}
	for _, c := range transport.Kinds {
		for _, size := range slices.Sorted(slices.Values(cfg.Sizes)) {
			thing := linkName(c.Name, int(size))
			if !slices.Contains(cfg.Carriers, c.Name) || !rounds.Measured(thing) {
				continue
			}
			row := CarrierRow{
				Carrier:   c.Name,
				Size:      int(size),
				Encrypted: !c.SameHost,
				Ratio:     rounds.Ratio(thing, "goodput_gbps", referencesFor(c, int(size))...),
			}
			rounds.Fill(thing, &row)
			for _, one := range rounds {
				row.BytesSent += uint64(one[thing]["bytes_sent"])
				row.PlacedWrites += uint64(one[thing]["bytes_placed"])
			}
			r.Carriers = append(r.Carriers, row)
		}
	}
}

func (r *Report) fillReferenceRows(rounds trial.Rounds) {
	r.References = []ReferenceRow{}
	for i := range references {
		if name := references[i].name; rounds.Measured(name) {
			row := ReferenceRow{Name: name, What: references[i].what}
			rounds.Fill(name, &row)
			r.References = append(r.References, row)
		}
	}
}

// fillRunRows compares each run with the run that a bound compares it with, if there is one.
func (r *Report) fillRunRows(cells []*sweep.Cell, rounds trial.Rounds) {
	for _, c := range cells {
		if !rounds.Measured(c.ID) {
			continue
		}
		row := RunRow{Name: runName(c), What: c.Says, Args: c.Args}
		rounds.Fill(c.ID, &row)
		for _, b := range targetsSweep().Bounds {
			for _, base := range cells {
				if b.Thing == c.ID && slices.Contains(b.ComparedWith, base.ID) {
					if row.Ratio = rounds.Ratio(c.ID, b.Figure, base.ID); row.Ratio != nil {
						row.Ratio.Reference = runName(base)
					}
				}
			}
		}
		r.Runs = append(r.Runs, row)
	}
}
