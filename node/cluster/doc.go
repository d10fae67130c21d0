// Package cluster finds the other nodes of a Ringlet system, and suspects nodes that have fallen silent.
//
// It stands for the rule that membership is a hint (docs/design/001-packages.md, "Control"): a gossip protocol (SWIM,
// as in hashicorp/memberlist) gives each node the list of members, with their names, roles and addresses. The run
// control decides: a view lists the nodes that take part, and this package changes no view.
//
// The caller does, in this order:
//
//  1. Open with a name, an address to bind and the cluster's gossip key. With Join the node enters a cluster, without
//     Join it begins one. Open fails with a *joinError that gives the reason: the key, the protocol version, a name
//     that is taken, no answer;
//  2. WaitForMembers for the names that it needs, or read Members as they come. Ranks follow from names: n2 is
//     before n10;
//  3. set OnEvent, if it likes: it gets joined, changed, left, failed, in order, from one goroutine, never with a lock
//     held;
//  4. Close. The other members then see "left", not "failed".
//
// AES-256-GCM under the gossip key seals all messages, and every holder of the key is trusted: the key keeps strangers
// out, the certificates of package certs identify nodes. Metadata are untrusted input all the same: data that cannot be
// decoded, or have another protocol version, are refused and counted (Counters), and never cause a panic. Taken names
// and wrong keys are logged once a minute, with how often they went unreported.
//
// It does not promise that two nodes see the same members at the same time, nor that a failed node has failed: a node
// that was too busy to answer is reported as failed and joins again.
package cluster
