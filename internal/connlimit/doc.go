// Package connlimit keeps a service that anybody may call from being overrun: it bounds how many stand in it at
// once, and how much the log tells of those who were turned away.
//
// Gate is the decision, without clock and I/O: how many may be inside, in all and from one host. Listener puts one
// before a TCP service. The handshakes of QUIC are bounded by one too (transport/quic). LogLimiter decides which of
// many equal lines is logged.
//
// The caller of Gate calls Leave for each Place that Enter gave, and says with SetYielding who may lose its place: one
// that has not said yet who it is, say. Whoever is turned away by a Listener finds its connection closed, and is
// counted.
//
// It does not know who is good: where nobody yields, a stranger with many addresses can fill a gate, and then nobody
// new comes in until the time-outs of the service have put the stranger out. Who does not yield is not disturbed.
package connlimit
