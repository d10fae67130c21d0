// Package bench measures what the carriers of remote writes do on a machine or between two, beside what the machine
// could do at best: it is `ringlet bench carriers`.
//
// It stands for the demand that a user sees a figure beside its limit, measured in the same run: a figure alone says as
// much of the machine and its neighbours as of the program. One process, the near one, writes; another, the far one,
// exports memory and is written to. Both go through transport.Endpoint and shmem like any user's data. The references
// (a copy, raw UDP, TCP, quic-go's datagrams, iperf3, OpenMPI) are run between the same two processes. Rounds go
// through everything in an order of their own, and a ratio is always one of two figures of the same round. The whole
// runs and the targets are a sweep file, targets.yaml.
//
// What was measured stands side by side with its limits (a copy, the cipher, the kernel), and with figures of others:
// published.yaml, with their sources. A Report is printed (WriteTable) and written as a page (WritePage).
//
// What the caller must do: make a Config, Validate it, and call Run, which needs a far process: Config.StartFar gives
// it a connection to one. That process calls Serve on its end. Both ends of the connection must have proved who they
// are; Accept and Dial do that with the certificates of node/certs.
//
// MeasureNodes takes measurements between nodes of this process; a Bench is one by its settings, whose Identity makes
// the identities of the nodes. Several repeat what the founding documents did with their hardware: patterns of traffic
// with each word checked at its receiver (NIC-crossbar §4.2), a receiver that looks for events in its memory (L1-farm
// §7.5), a write followed through its stages (SCI-bridge §IV), what triggers ask for, in the modes of the transfer
// engine of L1-farm §7.2.2 (the engine itself is package engine), and decisions by stored results (L1-farm §7.6).
// MemoryConfig is remote memory as its users have it, beside UDP, TCP, OpenMPI's one-sided operations and copies of the
// same run.
//
// A sweep that names raw measurements as references takes each by Measure.
//
// Run gives a Report even where it was interrupted or a part failed; what is missing is named in it. It does not
// promise figures of a busy machine to mean anything, and the far process is believed: whoever holds a certificate of
// the cluster can tell lies.
package bench
