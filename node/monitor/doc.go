// Package monitor serves process monitors: /livez, /readyz and /metrics, over plain HTTP. It stands for the founding
// documents' central monitoring (LHCb-EB §III.A) in the form that orchestrators and Prometheus need.
//
// The caller says what alive and ready mean, binds an address, and calls Serve; the function that Serve returns ends
// it. It accepts no commands and shows only a state and figures: it needs no certificates, and belongs on a network
// that strangers do not reach.
package monitor
