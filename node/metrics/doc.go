// Package metrics serves the metrics of a control and of nodes to Prometheus.
//
// It stands for the monitoring of LHCb-EB §III.A and the counters of NIC-crossbar §3.1.4, for sites with a monitoring
// system of their own. The control has metrics of the partition, its runs, its alarms, its scheduler and each node as
// the control sees it; each node has those of its own counters and links.
//
// The package keeps nothing. A collector takes a snapshot or a report at each scrape, so that no hot path does more
// work and a metric agrees with the page. Names follow from those of the counters, which docs/operating.md explains:
// ru.bytes_written is ringlet_ru_bytes_written_total, ru.barrier_us is ringlet_ru_barrier_seconds_total.
// docs/reference/metrics.md lists all of them; a test checks that list, and that dashboards and alert rules use no
// other metrics.
//
// The caller passes NodeHandler or ControlHandler a function that returns the present figures; each scrape calls it,
// several possibly at a time. The handler serves every client that reaches it, so it belongs on a network that
// strangers do not reach.
//
// It does not promise counters that outlive a run. They begin anew with each run, and Prometheus knows what to make of
// a counter that falls.
package metrics
