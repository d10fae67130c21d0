// Package certs makes and loads the keys by which the nodes of a Ringlet cluster know each other: a development
// certificate authority, a certificate per node, and the gossip key.
//
// It stands for the protection that the founding documents give to memory that others may write: before the table of
// package shmem says which peer may write which bytes, mutual TLS says which peer that is. A peer is known by its name
// ("n3", "control"), which stands in its certificate as a URI, ringlet://<role>/<name>, and as a DNS name; the
// cluster's own authority vouches for it, and no other authority is asked.
//
// Members (control, nodes) build; users (viewer, operator, admin) have certificates too, and are let in where
// ServerForUsers listens, nowhere else.
//
// A caller that sets a cluster up does, in this order: NewCA, then Issue for each node, then Save for whatever is to
// outlive the process. `ringlet run` keeps everything in a 0700 directory of its own and gives the certificates a short
// life.
//
// A node does: Load, then Server for what it listens with and Client(peer) for each peer it dials. After a handshake
// PeerIdentity names the peer. Explain turns a failed handshake's error into one that says why the peer was refused.
//
// All keys are ECDSA P-256, TLS is 1.3 or nothing, files are 0600 and appear whole or not at all.
//
// A certificate is valid until it ends, unless its serial number is in the file revoked beside the authority's
// certificate. A process that has loaded its files reads them again when they change, so that a renewal or a revocation
// needs no restart. The package does not copy the file revoked to other hosts, and renews no certificate by itself. The
// CA's key is a file without a passphrase: it is a development authority, and a production cluster brings its own
// certificates in the same file layout.
package certs
