// Package certs makes and loads the keys by which the nodes of a Ringlet cluster identify each other: a development
// certificate authority, a certificate per node, and the gossip key.
//
// It stands for the protection that the founding documents give to memory that other nodes may write: before the table
// of package shmem says which peer may write which bytes, mutual TLS says which peer that is. A peer is identified by
// its name ("n3", "control"), which is in its certificate as a URI, ringlet://<role>/<name>, and as a DNS name. Only
// the cluster's own authority is trusted.
//
// Members (control, nodes) build events. Users (viewer, operator, admin) have certificates too, and are admitted only
// where ServerForUsers listens.
//
// To set up a cluster the caller calls, in this order: NewCA, Issue for each node, and Save for keys that must outlive
// the process. `ringlet run` keeps everything in a 0700 directory of its own and gives the certificates a short life.
//
// A node calls Load, then Server for its listeners and Client(peer) for each peer that it dials. After a handshake
// PeerIdentity names the peer. Explain turns a failed handshake's error into one that says why a side was refused.
//
// All keys are ECDSA P-256, TLS is 1.3 only, files are 0600 and appear whole or not at all.
//
// It does not rotate: a process reads renewed files, but this package renews no certificate by itself. To revoke a
// certificate, put its serial number into the file revoked beside the authority's certificate on every host; where that
// is too slow, give certificates short lives. The CA's key is a file without a passphrase: it is a development
// authority, and a production cluster brings its own certificates in the same file layout.
package certs
