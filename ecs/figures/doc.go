// Package figures makes the live picture of a partition out of what its parts tell: the nodes' reports and the
// scheduler's registers become one Snapshot of rates, sums, traffic, phases and latencies.
//
// It stands for NIC-crossbar §3.1.4, counters and timers on everything and the bandwidth sampled at an interval, 2048
// samples of it; and for the monitoring of LHCb-EB §III.A. Everything told is cumulative, so nothing is lost where a
// report is: a rate is the difference of two readings over the time between them, by the clock of whoever read.
//
// The package is pure: no I/O, no goroutine, no clock. What the caller must do: New once for a partition, Add as often
// as somebody looks, with everything that is known at that moment and the time; Samples for what was before. One
// goroutine at a time. Histogram, Holders, SumCounters and Quantiles read reports for whoever else does, as the final
// report of a run.
//
// What it does not promise: that all figures of a snapshot are of one moment; each node tells when it does, and
// report_age_ms says how long that was ago. That a clock offset is better than the fastest way of a report over the
// network; a clock that seems to be behind may be a network that is slow. That a counter which has fallen, of a node
// that began anew, has a rate: that is 0 until the next reading.
package figures
