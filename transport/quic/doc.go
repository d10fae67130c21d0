// Package quic is the standard carrier: DATAGRAM frames (RFC 9221) on unmodified quic-go, mutual TLS, one socket per
// node.
//
// What the caller must do: Listen with TLS configurations and a function that reads a peer's name from its certificate;
// give the Network to transport.New; Close it after the endpoint.
//
// It stands for the physical links of the founding documents, on the network that is there.
//
// What it takes care of: packets of exactly full size, so that quic-go sends many in one system call (GSO); a socket
// that reads many in one (GRO); datagrams read in batches; handshakes that fail, counted and logged; greetings side by
// side.
//
// The same connection carries the link on two streams each way in place of datagrams, where both ends ask for it
// (stream.go).
//
// What it does not promise: delivery. quic-go drops received datagrams beyond 128 waiting, without a word; the link's
// credits keep fewer in flight.
package quic
