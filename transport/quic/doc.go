// Package quic is the standard carrier: DATAGRAM frames (RFC 9221) on unmodified quic-go, mutual TLS, one socket per
// node.
//
// The caller must do the following: Listen with TLS configurations and a function that reads a peer's name from its
// certificate; give the Network to transport.New; Close it after the endpoint.
//
// It takes the place of the physical links of the founding documents, on an ordinary network.
//
// The package provides packets of exactly full size, so that quic-go sends many in one system call (GSO); a socket that
// reads many in one (GRO); batches of received datagrams; failed handshakes, counted and logged; and many hellos side
// by side.
//
// Where both ends ask for it, the same connection carries the link on two streams each way instead of datagrams
// (stream.go).
//
// It does not promise delivery. quic-go drops received datagrams without a report when 128 are waiting; the link's
// credits keep fewer in flight.
package quic
