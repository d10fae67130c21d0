// Package express is what a bulk packet looks like and how it is sealed: the carrier that the QUIC handshake
// authenticates and keys, and that then goes its own way on the same socket.
//
// It does no I/O. transport/quic has the socket, hands packets to the right session, and moves many in one system call.
//
// What the caller must do: Derive both directions' keys from the TLS session; one Sealer and one Opener per direction
// and session, each used by one goroutine at a time; drop, and count, whatever an Opener does not open.
//
// What it promises with SealAES: a packet opens only if the peer sealed it, in this session, and only once; the number
// that makes its nonce never repeats, and its key is changed every 2²² packets. The first bytes of a packet, up to 60,
// travel in clear and are authenticated. With SealNone: a packet is taken only if it names a 64-bit session number that
// the TLS session made, and its checksum is right; who can read the network can forge it. docs/design/011-express.md
// has the threat model.
package express
