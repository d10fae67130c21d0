package bench

// References of remote memory, of the same run and with the same sizes: requests over UDP and TCP, which an owner in
// this process answers, OpenMPI's one-sided operations, and copies.

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"ringlet/lab/trial"
	"ringlet/node/config"
)

// memoryReferenceRows has the figures of a reference of remote memory.
type memoryReferenceRows struct {
	Name       string      `json:"name"`
	What       string      `json:"what"`
	WhyLeftOut string      `json:"left_out,omitempty"` // why it was not measured, or only in part
	AddTime    float64     `json:"add_us,omitempty"`
	Rows       []memoryRow `json:"sizes"`
}

// memoryReference is an entry of the table of references.
type memoryReference struct {
	name, what string
	measure    func(ctx context.Context, c *MemoryConfig, mem []byte, into *memoryReferenceRows) error
}

// memoryReferences stand in the order of a report.
var memoryReferences = []memoryReference{
	{"UDP", "a datagram there and one back; nothing is repeated, and nothing side by side", measureUDP},
	{"TCP", "requests and answers, a connection for each worker", measureTCP},
	{"MPI TCP", "OpenMPI's one-sided operations over TCP, two processes", oneSided(
		[]string{"btl", "tcp,self", "osc", "^sm,ucx"})},
	// Version 4 of OpenMPI calls the shared memory vader, version 5 sm.
	{"MPI memory", "the same through shared memory", oneSided(
		[]string{"btl", "vader,self", "osc", "^ucx"}, []string{"btl", "sm,self", "osc", "^ucx"})},
	{"memcpy", "copies to and from the same segment, by one processor", measureCopies},
}

// measureCopies copies into the memory and back.
func measureCopies(ctx context.Context, c *MemoryConfig, mem []byte, into *memoryReferenceRows) error {
	m := &memoryAccess{
		put: func(_ context.Context, _ int, at int64, b []byte) error {
			copy(mem[at:], b)
			return nil
		},
		get: func(_ context.Context, _ int, at int64, b []byte) error {
			copy(b, mem[at:])
			return nil
		},
		concurrency: 1,
	}
	return c.measureAccess(ctx, m, &into.AddTime, &into.Rows)
}

// memoryFigures are the tables of the report.
var memoryFigures = []struct {
	title string
	of    func(m *memoryRow) float64
}{
	{"Put, µs", func(m *memoryRow) float64 { return m.PutTime }},
	{"Get, µs", func(m *memoryRow) float64 { return m.GetTime }},
	{"Message, µs: a put and a notice, until the other side is awake",
		func(m *memoryRow) float64 { return m.MessageTime }},
	{"Puts side by side, Gbit/s", func(m *memoryRow) float64 { return m.PutGbps }},
	{"Gets side by side, Gbit/s", func(m *memoryRow) float64 { return m.GetGbps }},
}

// WriteTable prints the report as tables.
func (r *memoryReport) WriteTable(w io.Writer) error {
	r.writeHead(w, "what was measured until then", "remote memory over %s, an owner and a user in one process on %d cores",
		r.Carrier, r.Cores)
	fmt.Fprintf(w, "raw UDP of 128 B there and back: %.2f µs; add: %.2f µs\n", r.UDPRoundTrip, r.AddTime)
	all := append([]memoryReferenceRows{{
		Name:    r.Carrier,
		What:    "remote memory",
		AddTime: r.AddTime,
		Rows:    r.Rows,
	}}, r.References...)
	var names, adds []string
	for i := range all {
		b := &all[i]
		if b.WhyLeftOut != "" {
			fmt.Fprintf(w, "%s is left out: %s\n", b.Name, b.WhyLeftOut)
		}
		if len(b.Rows) > 0 {
			names = append(names, b.Name)
		}
		if b.AddTime > 0 {
			adds = append(adds, fmt.Sprintf("%s %.2f", b.Name, b.AddTime))
		}
	}
	fmt.Fprintf(w, "Medians of one at a time; side by side are %d, and one copy. Add, µs: %s\n", r.Concurrency,
		cmp.Or(strings.Join(adds, ", "), "–"))
	for _, figure := range memoryFigures {
		var rows [][]string
		for _, size := range r.sizes() {
			rows = append(rows, figureOf(all, size, figure.of))
		}
		if err := trial.Table(w, figure.title, append([]string{"size"}, names...), rows); err != nil {
			return err
		}
	}
	return nil
}

// figureOf is a line of a table: one figure of all references for one size.
func figureOf(all []memoryReferenceRows, size int, of func(m *memoryRow) float64) []string {
	line := []string{config.Bytes(size).String()}
	for i := range all {
		if len(all[i].Rows) == 0 {
			continue
		}
		cell := "–"
		for j := range all[i].Rows {
			if m := &all[i].Rows[j]; m.Size == size && of(m) > 0 {
				cell = trial.Short(of(m))
			}
		}
		line = append(line, cell)
	}
	return line
}

// sizes lists the measured sizes, in the order of the settings.
func (r *memoryReport) sizes() (sizes []int) {
	for i := range r.Rows {
		if size := r.Rows[i].Size; !slices.Contains(sizes, size) {
			sizes = append(sizes, size)
		}
	}
	return sizes
}
