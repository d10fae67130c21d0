// Package metrics is what a control and a node tell Prometheus.
//
// It stands for the monitoring of LHCb-EB §III.A and the counters of NIC-crossbar §3.1.4, for whoever has a monitoring
// of their own: the control tells of the partition, its runs, its alarms, its scheduler and each node as it is seen
// from there; each node tells its own counters and those of its links.
//
// Nothing is kept here. A collector asks for a snapshot or a report when it is scraped, so that nothing is added to any
// hot path and a metric says what the page says. Names follow from those of the counters: ru.bytes_written is
// ringlet_ru_bytes_written_total, ru.barrier_us is ringlet_ru_barrier_seconds_total. docs/reference/metrics.md lists
// counters and metrics; tests check this list, and that dashboards and alert rules name nothing else.
//
// What the caller must do: give Node or Control a function that tells how things stand; it is called by whoever
// scrapes, at the same time as others. Serve the handler where it does no harm: it is for everybody who reaches it.
//
// What it does not promise: counters that outlive a run. They begin anew with each, as Prometheus knows of a counter
// that falls.
package metrics
