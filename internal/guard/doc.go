// Package guard keeps a door at which anybody may knock from being overrun: it bounds how many stand in it at once, and
// how much the log tells of those who were turned away.
//
// Gate is the decision, without clock and I/O: how many may be inside, in all and from one host. Listener puts one
// before a TCP service. The handshakes of QUIC are bounded by one too (transport/quic). Log decides which of many equal
// lines is told.
//
// The caller of Gate calls Leave once for each Enter that let somebody in. Whoever is turned away by a Listener finds
// its connection closed at once, and is counted.
//
// It does not know who is good: a stranger with many addresses can fill a gate, and then nobody new comes in until the
// time-outs of the service have put the stranger out. What is inside is not disturbed.
package guard
