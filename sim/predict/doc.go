// Package predict predicts what a cluster will do before it is bought or set up: the rate, the utilization of the
// ports, the latency, and the bottleneck, for a configuration and any number of nodes up to 1,000.
//
// It is the scalability test of LHCb-EB §V.A for a user's own cluster. The costs of software come from measurements on
// the user's hosts: a few parameters, fitted to the rates of a sweep.
//
// Its decisions are those of the product's own code: tagnet/core.Allocator, the orders of the disciplines,
// barrier.Core. Ports (sim/component) and processors are models; docs/predict.md says what is left out, and how large
// the error is.
//
// What the caller must do: Load a file and costs, then Predict; or make Points from results and Calibrate; Judge
// compares predictions with measurements.
package predict
