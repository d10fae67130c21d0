// Package figures makes snapshots of a partition: it turns the reports of the nodes and the registers of the scheduler
// into rates, sums, traffic, phases and latencies.
//
// It stands for NIC-crossbar §3.1.4, counters and timers on everything and the bandwidth sampled at an interval, 2048
// samples of it; and for the monitoring of LHCb-EB §III.A. Reported counters are cumulative, so that a lost report
// loses nothing: a rate is the difference of two readings over the time between them, by the clock of the node that
// counted.
//
// The package is pure: no I/O, no goroutine, no clock. What the caller must do: New once for a partition; Add at an
// interval, with a Reading; Samples for earlier figures. One goroutine at a time. Histogram, MergeHistograms,
// BarrierHolders, SumMissing and SumCounters read reports for other callers, too, such as the report of a run.
//
// What it does not promise: the figures of a snapshot are not of one moment: report_age_ms is the age of each node's
// report. A clock offset is not better than the fastest way of a report over the network: a slow network looks like a
// clock that is behind. A counter that has fallen, since its node was restarted, has the rate 0 until the next reading.
package figures
