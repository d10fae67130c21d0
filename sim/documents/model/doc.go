// Package model has the models of the founding documents. A model reads its parameters from a study, simulates with the
// engine and the components of the simulator, and returns results by name.
//
// The models are the machines that the documents measured: the farms of L1-farm and TagNet-farm, the event builder of
// LHCb-EB, the bridge of SCI-bridge, the card and the crossbar of NIC-crossbar.
//
// What the caller must do: hand All to study.Study.Run.
//
// It says nothing about machines that the documents do not describe; docs/simulator.md lists what each model leaves
// out.
package model
