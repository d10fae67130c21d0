package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"ringlet/lab/page"
	"ringlet/lab/trial"
	"ringlet/node/config"
	"ringlet/node/hostlimits"
	"ringlet/testkit/transcript"
)

// timed are the quantiles of a time.
func timed(figure string, p50, p99, p999 float64) trial.Figures {
	return trial.Figures{figure + ".p50": p50, figure + ".p99": p99, figure + ".p999": p999}
}

// joined has the figures of all.
func joined(all ...trial.Figures) trial.Figures {
	out := trial.Figures{}
	for _, f := range all {
		maps.Copy(out, f)
	}
	return out
}

// sample is a report made of invented rounds.
func sample() *Report {
	var rounds trial.Rounds
	for i := range 3 {
		f := float64(i)
		r := trial.Round{}
		for name, speed := range map[string]float64{"quic-go": 3, "quic": 18, "local": 64} {
			gbps := speed / 10
			r[name+" 128"] = joined(timed("write_us", 10+f, 20+f, 30+f), timed("answered_us", 10+f, 20+f, 30+f), trial.Figures{
				"goodput_gbps": gbps, "datagrams_per_s": 1000, "datagram_bytes": gbps * 1e9 / 8 / 1000, "resent_share": 0,
				"near_cpu_s_per_gb": 0, "far_cpu_s_per_gb": 0, "pieces_per_s": 2e6 + f, "bytes_sent": 1280, "bytes_placed": 1280,
			})
			if name != "quic" || i > 0 { // its first one failed
				gbps := speed + f
				r[name+" 1MiB"] = joined(timed("write_us", 100, 200, 300), trial.Figures{
					"goodput_gbps": gbps, "datagrams_per_s": 2e5, "datagram_bytes": gbps * 1e9 / 8 / 2e5, "resent_share": 0.001,
					"near_cpu_s_per_gb": 2, "far_cpu_s_per_gb": 1, "bytes_sent": 1 << 21, "bytes_placed": 1 << 21, "bytes_lost": 0,
				})
			}
		}
		gbps := func(v float64) trial.Figures { return trial.Figures{"goodput_gbps": v} }
		r[refCopy] = joined(gbps(80), trial.Figures{"near_cpu_s_per_gb": 0.1})
		r[refCopySmall] = gbps(64)
		r[refSeal] = joined(gbps(40), trial.Figures{"near_cpu_s_per_gb": 0.2})
		r[refUDP] = gbps(50)
		r[refQUIC] = joined(gbps(4), trial.Figures{"lost_share": 0.1, "near_cpu_s_per_gb": 1, "far_cpu_s_per_gb": 1})
		r[refTCP] = gbps(36)
		r[refIPerf] = gbps(20)
		r[refMPIShm] = joined(gbps(100), trial.Figures{"barrier_share": 0.29})
		r[refTrip] = timed("trip_us", 6, 90, 100)
		r[refTripSpin] = timed("trip_us", 5, 8, 9)
		run := func(gbps, events, cpu, resent float64) trial.Figures {
			return trial.Figures{"goodput_gbps": gbps, "event_rate_hz": events, "cpu_s_per_gb": cpu, "resent_share": resent}
		}
		r["pair transport=quic-go"] = run(3, 1e4, 4, 0.01)
		r["folded transport=quic-go"] = run(2.7+f/10, 1e4, 4, 0)
		r["folded transport=local"] = run(120, 0, 0, 0)
		rounds = append(rounds, r)
	}
	r := &Report{
		Version:    "test",
		Started:    "2026-11-21T12:00:00Z",
		Rounds:     3,
		RoundsDone: 3,
		DurationS:  0.5,
		SpinUs:     1000,
		Procs:      1,
		Cores:      2,
		Memory:     256 << 20,
		Command:    "ringlet bench carriers --runs --out compared",
		Machine:    page.Machine{CPU: "CPU", Flags: []string{"aes", "vaes"}, Cores: 2, Kernel: "Linux 6", Go: "go1.26"},
		LeftOut:    []string{"iperf3: left out, iperf3 is not installed"},
		Failed:     []string{"quic, 1MiB: the link broke"},
		Limits: []HostLimit{{"near",
			hostlimits.Finding{Limit: "MTU", Problem: "packets are small", Advice: "Make them larger."}}},
	}
	r.summarize(&Config{Carriers: []string{"quic-go", "quic", "local"}, Sizes: []config.Bytes{1 << 20, 128},
		FullRuns: true},
		rounds)
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
	if err := sample().WriteTable(&b); err != nil {
		t.Fatal(err)
	}
	transcript.Expect(t, "testdata/report.txt", b.String())
}

// TestReportAsPage: what is drawn and what stands in its tables; that a page is whole is lab/page's to test.
func TestReportAsPage(t *testing.T) {
	r := sample()
	var b, out bytes.Buffer
	if err := r.WritePage(&b); err != nil || !strings.Contains(b.String(), "<h1>Carriers and references</h1>") {
		t.Fatal(err)
	}
	for _, part := range r.page().Sections {
		fmt.Fprintf(&out, "\n# %s: %s\n", part.Title, part.Note)
		for _, f := range part.Figures {
			fmt.Fprintf(&out, "%s: %s\n", f.Title, f.Y.Label)
			for _, c := range f.Curves {
				fmt.Fprintf(&out, "  %s:", c.Name)
				for _, p := range c.Points {
					tick := f.X.Ticks[slices.IndexFunc(f.X.Ticks, func(t page.Tick) bool { return t.At == p.X })]
					mark := map[bool]string{true: " elsewhere"}[tick.Elsewhere]
					fmt.Fprintf(&out, " [%s%s] %s", tick.Label, mark, trial.Short(p.Median))
				}
				out.WriteString("\n")
			}
		}
		if part.Text != "" {
			out.WriteString(part.Text + "\n")
		}
		fmt.Fprintf(&out, "%d columns, %d rows\n", len(part.Table.Heads), len(part.Table.Rows))
	}
	transcript.Expect(t, "testdata/page.txt", out.String())
}

// TestPublishedFiguresCanBeLookedUp: each says who, on what and where; all are drawn on one axis.
func TestPublishedFiguresCanBeLookedUp(t *testing.T) {
	if len(readPublished()) < 5 {
		t.Errorf("%d figures", len(readPublished()))
	}
	for _, p := range readPublished() {
		if p.Who == "" || p.What == "" || p.Machine == "" || p.Figure <= 0 || p.Unit != "Gbit/s" ||
			!strings.Contains(p.Source, "https://") {
			t.Errorf("%+v", p)
		}
	}
}

// TestSharesAreOfOneRound: what crosses is compared with the limit of the same round, and a limit not with itself.
func TestSharesAreOfOneRound(t *testing.T) {
	rows := map[string]SideRow{}
	for _, s := range sample().SideRows {
		rows[s.Name] = s
	}
	near := func(a, b float64) bool { return math.Abs(a-b) < 1e-9 }
	folded, linked, seal := rows["folded quic-go"], rows["quic 1MiB"], rows[refSeal]
	switch {
	case !near(folded.BusGoodput.Max, 2.9*0.75) || !near(folded.RatioToCipher.Max, 2.9*0.75/40) ||
		folded.RatioToKernel.Reference != refUDP:
		t.Errorf("%+v", folded)
	case linked.RatioToCipher == nil || linked.CPU == nil || linked.CPU.Median != 3 ||
		linked.RatioToCopy.Median != 19.5/80:
		t.Errorf("%+v", linked)
	case seal.RatioToCipher != nil || seal.RatioToKernel != nil || rows[refCopy].RatioToCopy != nil ||
		rows[refUDP].RatioToKernel != nil:
		t.Errorf("%+v", seal)
	case rows["local 1MiB"].RatioToKernel != nil || rows["folded local"].RatioToCipher != nil:
		t.Errorf("%+v", rows["local 1MiB"])
	}
	for _, small := range []string{refCopySmall, refTrip} {
		if _, ok := rows[small]; ok {
			t.Errorf("%s says nothing of large writes", small)
		}
	}
}

// TestReportOfNothing: an early signal leaves a report without figures, not a fault.
func TestReportOfNothing(t *testing.T) {
	r := &Report{Rounds: 5, Interrupted: true}
	r.summarize(&Config{Carriers: carrierNames(), Sizes: []config.Bytes{128}, FullRuns: true}, trial.Rounds{{}})
	var b bytes.Buffer
	if err := r.WriteTable(&b); err != nil || !strings.Contains(b.String(), "INTERRUPTED") {
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

// TestTargetsOfTheTable: each row of the table of targets is judged, by the figures that it is about.
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
		"quic-go, 1 MiB ≥ 0.9 × unpaced quic-go datagrams":                        "reached",     // 4 / 4
		"quic-go, 1 MiB ≤ 0 B lost":                                               "reached",     //
		"quic, 1 MiB ≥ 17 Gbit/s":                                                 "reached",     // 19.5
		"quic, 1 MiB ≥ 1 × iperf3":                                                "not reached", //
		"local, 1 MiB ≥ 0.8 × copy into a mapped file":                            "reached",     // 65 / 80
		"quic, 128 B, idle ≤ 1.3 × a raw UDP round trip (p50, udp-trip-spin)":     "not reached", // 11 / 5
		"local, 128 B, idle ≤ 3 µs, seen and answered (p50)":                      "not reached", // 11
		"4 folded nodes, quic-go ≥ 0.85 × its pair":                               "reached",     // 2.8 / 3
		"4 folded nodes, local ≥ 0.8 × OpenMPI over shared memory, between nodes": "reached",     // 90 / 100
		"4 folded nodes, quic ≥ 0.85 × its pair":                                  "not measured",
		"3 RUs to 26 BUs, 128 B, quic ≥ 1.24 M events/s":                          "not measured",
		"loss of 1 %, quic-go ≥ 0.6 × lossless":                                   "not measured",
		"2 RUs, 128 B, packing 1, quic ≥ 2.14 M events/s":                         "not measured",
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
