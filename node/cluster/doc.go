// Package cluster finds the other nodes of a Ringlet system and suspects those that fell silent.
//
// It stands for the rule that membership is a hint (docs/design/007-membership-and-identity.md): a gossip protocol
// (SWIM, as hashicorp/memberlist has it) tells each node who is there, under which name, with which roles and at which
// addresses. The run control decides; a view lists who takes part, and nothing here changes a view.
//
// A caller does, in this order:
//
//  1. Open with a name, an address to bind and the cluster's gossip key. With Join it enters a cluster, without it
//     begins one. Open fails with a *joinError that says why: key, protocol version, a name that is taken, nobody
//     there;
//  2. Wait until the names it needs are present, or take Members as they come. Ranks follow from names: n2 stands
//     before n10;
//  3. watch OnEvent, if it likes: joined, changed, left, failed, in order, from one goroutine, never while a lock is
//     held;
//  4. Close. The other members then see "left", not "failed".
//
// What travels is sealed with AES-256-GCM under the gossip key. Whoever holds the key is believed: the key keeps
// strangers out, the certificates of package certs say who is who. Metadata is untrusted input all the same: what does
// not decode, or speaks another protocol version, is refused and counted (Counters), and never panics. Of names that
// are taken and keys that do not fit the log hears once a minute, with how often it came unreported.
//
// It does not promise that two nodes see the same members at the same time, nor that a failed node has failed: a node
// that was too busy to answer is reported failed and joins again.
package cluster
