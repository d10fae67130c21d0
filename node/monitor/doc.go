// Package monitor answers whoever watches over processes: /livez, /readyz and /metrics, over plain HTTP. It stands for
// the founding documents' central monitoring (LHCb-EB §III.A) as orchestrators and Prometheus want it.
//
// The caller says what alive and ready mean, binds an address, and calls Serve; the function it returns ends it. It
// takes no commands and tells nothing but a state and figures: it needs no certificates, and belongs on a network that
// strangers do not reach.
package monitor
