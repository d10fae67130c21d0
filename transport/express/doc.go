// Package express makes and reads the bulk packets of the carrier quic. Such a packet is one of QUIC version 1 with a
// short header (RFC 9000, section 17.3), protected as in RFC 9001, with one DATAGRAM frame (RFC 9221). quic-go does the
// handshake; its packets and these use one socket and differ by their connection IDs.
//
// The package does no I/O. transport/quic has the socket, finds a packet's session, and moves many packets per system
// call.
//
// The caller must do the following: export a secret for each direction from the TLS session; use one Sealer and one
// Opener per direction and session, each in one goroutine at a time; drop and count every packet that an Opener
// rejects.
//
// The package promises that a packet opens only if the peer sealed it in this session, and only once; packet numbers,
// which make the nonces, never repeat, and the key is updated every 2²² packets. Third parties can read only a packet's
// connection ID and size. docs/design/011-quic.md has the threat model.
package express
