// Package predict says what a cluster will do before it is bought or set up: the rate, the share of the ports that it
// makes use of, the latency, and what binds, for a configuration and any number of nodes up to 1,000.
//
// It stands for the scalability test of LHCb-EB §V.A, asked by a user about a cluster of his own. What
// software costs comes from measurements on the user's hosts: a few parameters, fitted to the rates of a sweep.
//
// The decisions are those of the product, unchanged: tagnet/core.Allocator, the orders of the disciplines,
// barrier.Core. Around them stand ports (sim/component) and processors; docs/predict.md says what is left out, and how
// large the error is.
//
// What the caller must do: Load a file and Costs, then Predict; or Points of results and Calibrate; Judge says how far
// both are apart.
package predict
