package bench

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"ringlet/node/hostlimits"
	"ringlet/testkit/transcript"
)

// sample is a report made of invented rounds.
func sample() *Report {
	var rounds []*round
	for i := range 3 {
		f := float64(i)
		r := newRound()
		q := quantiles{10 + f, 20 + f, 30 + f}
		for name, speed := range map[string]float64{"quic": 3, "express": 18, "local": 64} {
			r.cells[cellKey{name, 128}] = cellResult{Gbps: speed / 10, Datagrams: 1000, Write: q, Answered: q, Pieces: 2e6 + f,
				Sent: 1280, Here: 1280}
			if name != "express" || i > 0 { // its first one failed
				r.cells[cellKey{name, 1 << 20}] = cellResult{
					Gbps: speed + f, Datagrams: 2e5, Resent: 0.001, NearCPU: 2, FarCPU: 1, Write: quantiles{100, 200, 300},
					Sent: 1 << 21, Here: 1 << 21,
				}
			}
		}
		r.refs[refCopy] = refResult{Gbps: 80, NearCPU: 0.1}
		r.refs[refCopySmall] = refResult{Gbps: 64}
		r.refs[refQUIC] = refResult{Gbps: 4, Lost: 0.1, NearCPU: 1, FarCPU: 1}
		r.refs[refTCP] = refResult{Gbps: 36}
		r.refs[refIPerf] = refResult{Gbps: 20}
		r.refs[refMPIShm] = refResult{Gbps: 100, BarrierShare: 0.29}
		r.refs[refTrip] = refResult{Trip: quantiles{6, 90, 100}}
		r.refs[refTripSpin] = refResult{Trip: quantiles{5, 8, 9}}
		r.runs["pair quic"] = runResult{Gbps: 3, Events: 1e4, CPU: 4, Sent: 100, Resent: 1, Balance: true}
		r.runs["folded quic"] = runResult{Gbps: 2.7 + f/10, Events: 1e4, CPU: 4, Sent: 100, Balance: true}
		r.runs["folded local"] = runResult{Gbps: 120, Balance: true}
		rounds = append(rounds, r)
	}
	r := &Report{
		Version: "test", Started: "2026-11-21T12:00:00Z", Rounds: 3, RoundsDone: 3, DurationS: 0.5, SpinUs: 1000, Procs: 1,
		Cores: 2, Memory: 256 << 20,
		LeftOut: []string{"iperf3: left out, iperf3 is not installed"}, Failed: []string{"express, 1MiB: the link broke"},
		Limits: []HostLimit{{"near", hostlimits.Finding{Limit: "MTU", Wrong: "packets are small", Do: "Make them larger."}}},
	}
	r.summarize([]string{"quic", "express", "local"}, true, true, rounds)
	return r
}

func TestReportAsJSON(t *testing.T) {
	text, err := json.MarshalIndent(sample(), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	transcript.Expect(t, "testdata/report.json", string(text)+"\n")
}

func TestReportAsTable(t *testing.T) {
	var b bytes.Buffer
	if err := WriteTable(&b, sample()); err != nil {
		t.Fatal(err)
	}
	transcript.Expect(t, "testdata/report.txt", b.String())
}

// TestReportOfNothing: an early signal leaves a report without figures, not a fault.
func TestReportOfNothing(t *testing.T) {
	r := &Report{Rounds: 5, Interrupted: true}
	r.summarize(carrierNames(), true, true, []*round{newRound()})
	var b bytes.Buffer
	if err := WriteTable(&b, r); err != nil || !strings.Contains(b.String(), "INTERRUPTED") {
		t.Errorf("%v\n%s", err, &b)
	}
	text, err := json.Marshal(r)
	if err != nil || bytes.Contains(text, []byte("null")) {
		t.Errorf("%s, %v", text, err)
	}
	for _, target := range r.Targets {
		if target.Measured != nil || target.Reached {
			t.Errorf("%+v was not measured", target)
		}
	}
}

// TestTargetsOfTheTable: each row of the table is judged, by the figures that it is about.
func TestTargetsOfTheTable(t *testing.T) {
	verdicts := map[string]string{}
	for _, target := range sample().Targets {
		v := "not measured"
		if target.Measured != nil {
			v = "not reached"
			if target.Reached {
				v = "reached"
			}
		}
		verdicts[target.Path+" "+target.Target] = v
	}
	for row, want := range map[string]string{
		"quic, 1 MiB ≥ 0.9 × unpaced quic-go datagrams":                           "reached",     // 4 / 4
		"quic, 1 MiB ≤ 0 B lost":                                                  "reached",     //
		"express sealed, 1 MiB ≥ 17 Gbit/s":                                       "reached",     // 19.5
		"express sealed, 1 MiB ≥ 0.8 × iperf3":                                    "reached",     //
		"local, 1 MiB ≥ 0.8 × copy into a mapped file":                            "reached",     // 65 / 80
		"express, 128 B, idle ≤ 1.3 × a raw UDP round trip (p50, udp-trip-spin)":  "not reached", // 11 / 5
		"local, 128 B, idle ≤ 3 µs, seen and answered (p50)":                      "not reached", // 11
		"4 folded nodes, quic ≥ 0.85 × its pair":                                  "reached",     // 2.8 / 3
		"4 folded nodes, local ≥ 0.8 × OpenMPI over shared memory, between nodes": "reached",     // 90 / 100
		"4 folded nodes, express ≥ 0.85 × its pair":                               "not measured",
		"3 RUs to 26 BUs, 128 B, express ≥ 1.24 M events/s":                       "not measured",
		"loss of 1 %, quic ≥ 0.6 × lossless":                                      "not measured",
		"2 RUs, 128 B, packing 1, express ≥ 2.14 M events/s":                      "not measured",
	} {
		if verdicts[row] != want {
			t.Errorf("%s: %q, want %q", row, verdicts[row], want)
		}
	}
	for row := range verdicts {
		if strings.Contains(row, "stream") || strings.Contains(row, "open") && !strings.Contains(row, "OpenMPI") {
			t.Errorf("%s was not asked for", row)
		}
	}
}

func TestSpread(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.SliceOfN(rapid.Float64Range(0, 1e12), 1, 20).Draw(t, "figures")
		s := spread(v)
		below, above := 0, 0
		for _, x := range v {
			if x <= s.Median {
				below++
			}
			if x >= s.Median {
				above++
			}
		}
		if s.Min != slices.Min(v) || s.Max != slices.Max(v) || 2*below < len(v) || 2*above < len(v) {
			t.Fatalf("%v of %v", s, v)
		}
	})
}

// TestRoundsTurn: over as many rounds as there are things, each is measured once at each place.
func TestRoundsTurn(t *testing.T) {
	for n := 1; n < 8; n++ {
		at := map[[2]int]int{}
		for r := range n {
			for place, thing := range turned(n, r) {
				at[[2]int{place, thing}]++
			}
		}
		if len(at) != n*n {
			t.Errorf("%d things stand at %d places", n, len(at))
		}
	}
}
