package testbed

import (
	"fmt"
	"io"

	"ringlet/lab/trial"
	"ringlet/node/config"
)

// WriteTable prints the report; docs/testbed.md explains the columns.
func (r *Report) WriteTable(w io.Writer) error {
	bed := fmt.Sprintf("%d hosts, ports of %v, queues of %v, bursts of %v, MTU %d", r.Hosts, Rate(r.RateBps),
		config.Bytes(r.QueueBytes), config.Bytes(r.BurstBytes), r.MTU)
	if len(r.Links) > 0 {
		last := r.Links[len(r.Links)-1]
		bed += fmt.Sprintf(", fat tree of %d leaves and %d spines", last.Leaf+1, last.Spine+1)
	}
	about := [][]string{{"switch", fmt.Sprintf("%d packets to hosts, %d dropped (%.3f %%)", r.Packets, r.Dropped,
		100*r.DroppedShare)}}
	for _, d := range r.Disturbances {
		what := fmt.Sprintf("at %.3f s", d.AtS)
		switch {
		case d.Error != "":
			what = d.Error
		case !d.TookEffect:
			what = "not reached"
		}
		about = append(about, []string{d.Disturbance.String(), what})
	}
	if err := trial.Table(w, "", []string{"test bed", bed}, about); err != nil {
		return err
	}
	var ports [][]string
	for _, p := range r.Ports {
		row := []string{p.Host, Rate(p.RateBps).String()}
		for _, c := range []Count{p.ToHost, p.FromHost} {
			row = append(row, fmt.Sprint(c.Packets), fmt.Sprint(c.Bytes), fmt.Sprint(c.Dropped))
		}
		ports = append(ports, row)
	}
	err := trial.Table(w, "", []string{"port", "rate", "to host: packets", "bytes", "dropped",
		"from host: packets", "bytes", "dropped"}, ports)
	if err != nil || len(r.Links) == 0 {
		return err
	}
	var links [][]string
	for _, l := range r.Links {
		row := []string{fmt.Sprint(l.Leaf), fmt.Sprint(l.Spine)}
		for _, c := range []Count{l.ToSpine, l.ToLeaf} {
			row = append(row, fmt.Sprint(c.Packets), fmt.Sprint(c.Bytes), fmt.Sprint(c.Dropped))
		}
		links = append(links, row)
	}
	return trial.Table(w, "", []string{"leaf", "spine", "to spine: packets", "bytes", "dropped",
		"to leaf: packets", "bytes", "dropped"}, links)
}
