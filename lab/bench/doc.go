// Package bench measures the carriers of remote writes on one machine or between two, and in the same run the limits of
// the machine: it is `ringlet bench carriers`.
//
// It shows each figure beside its limit, since a figure alone says as much about the machine and its neighbours as
// about the program. The near process writes; the far process exports the memory that is written. Both use
// transport.Endpoint and shmem as any user's program does. The references (a copy, raw UDP, TCP, quic-go's datagrams,
// iperf3, OpenMPI) run between the same two processes. Each round measures everything in an order of its own, and a
// ratio is always one of two figures of the same round. The whole runs and the targets are a sweep file, targets.yaml.
//
// The report compares each measured path with the limits (a copy, the cipher, the kernel), and with figures that others
// published: published.yaml, with their sources. A Report is printed (WriteTable) and written as a page (WritePage).
//
// What the caller must do: make a Config, Validate it, and call Run. Run connects to a far process by Config.StartFar;
// that process calls Serve on its end of the connection. Both ends of the connection must have proved their names;
// Accept and Dial do that with the certificates of node/certs.
//
// MeasureNodes measures between nodes of this process. A Bench is such a measurement by its settings; its Identity
// makes the identities of the nodes. Several repeat tests that the founding documents made with their hardware:
// patterns of traffic with each word checked at its receiver (NIC-crossbar §4.2), a receiver that looks for events in
// its memory (L1-farm §7.5), a write followed through its stages (SCI-bridge §IV), transfers started by triggers, in
// the modes of the transfer engine of L1-farm §7.2.2 (package engine is that engine), and decisions by stored results
// (L1-farm §7.6). MemoryConfig measures remote memory through its interface for users, beside UDP, TCP, OpenMPI's
// one-sided operations and copies of the same run.
//
// A sweep that names raw measurements as references calls Measure for each.
//
// Run returns a Report even if it was interrupted or a part failed; the report names what is missing. Figures of a busy
// machine may mean nothing. Run believes the far process: a process with a certificate of the cluster can report wrong
// figures.
package bench
