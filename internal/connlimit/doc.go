// Package connlimit protects a service that every host may call from too many connections: it bounds how many are open
// at once, and how many log lines those that it refuses cause.
//
// Gate is the decision, without clock and I/O: how many connections may be open, in all and from one host. Listener
// puts a Gate in front of a TCP service, transport/quic one in front of the handshakes of QUIC. LogLimiter decides
// which of many equal lines is logged.
//
// The caller of Gate calls Leave for each Place that Enter returned. With SetYielding it marks a connection that may
// lose its place to a new one, for example until its peer has authenticated itself. A Listener closes the connections
// that it refuses or evicts, and counts them.
//
// It cannot tell good peers from bad ones: if no place yields, a stranger with many addresses can fill a gate, and no
// new connection enters until the time-outs of the service have closed the stranger's. Connections inside keep their
// place.
package connlimit
