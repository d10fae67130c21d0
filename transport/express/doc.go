// Package express is the engine of the carrier quic: what a bulk packet looks like and how it is sealed. A packet is
// one of QUIC version 1 with a short header (RFC 9000, section 17.3), protected as RFC 9001 says, with one DATAGRAM
// frame (RFC 9221). quic-go makes the handshake; its packets and these share a socket, and connection IDs tell them
// apart.
//
// It does no I/O. transport/quic has the socket, hands packets to the right session, and moves many in one system call.
//
// What the caller must do: export a secret of each direction from the TLS session; one Sealer and one Opener per
// direction and session, each used by one goroutine at a time; drop, and count, whatever an Opener does not open.
//
// What it promises: a packet opens only if the peer sealed it, in this session, and only once; the number that makes
// its nonce never repeats, and its key is updated every 2²² packets. Nothing of a packet can be read by others but its
// connection ID and its size. docs/design/011-quic.md has the threat model.
package express
