package testbed

import (
	"fmt"
	"io"
	"text/tabwriter"

	"ringlet/node/config"
)

// WriteTable prints a report for people; docs/testbed.md says what the columns mean.
func WriteTable(w io.Writer, r *Report) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "test bed\t%d hosts, ports of %v, queues of %v, bursts of %v, MTU %d\n", r.Hosts, Rate(r.RateBps),
		config.Bytes(r.QueueBytes),
		config.Bytes(r.BurstBytes), r.MTU)
	fmt.Fprintf(t, "switch\t%d packets to hosts, %d dropped (%.3f %%)\n", r.Packets, r.Dropped, 100*r.DroppedShare)
	for _, d := range r.Disturbances {
		what := fmt.Sprintf("at %.3f s", d.AtS)
		switch {
		case d.Error != "":
			what = d.Error
		case !d.Done:
			what = "not reached"
		}
		fmt.Fprintf(t, "%v\t%s\n", d.Disturbance, what)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(t, "port\trate\tto host: packets\tbytes\tdropped\tfrom host: packets\tbytes\tdropped\t\n")
	for _, p := range r.Ports {
		fmt.Fprintf(t, "%s\t%v\t%d\t%d\t%d\t%d\t%d\t%d\t\n", p.Host, Rate(p.RateBps), p.ToHost.Packets, p.ToHost.Bytes,
			p.ToHost.Dropped,
			p.FromHost.Packets, p.FromHost.Bytes, p.FromHost.Dropped)
	}
	return t.Flush()
}
