// Package model holds the models of the founding documents. A model reads its parameters from a study, plays them with
// the engine and the components of the simulator, and gives results by name.
//
// It stands for the machines that the documents measured: the farms of L1-farm and TagNet-farm, the event builder of
// LHCb-EB, the bridge of SCI-bridge, the card and the crossbar of NIC-crossbar.
//
// What the caller must do: hand All to study.Study.Run.
//
// It does not promise anything of machines that the documents do not describe; docs/simulator.md says what each model
// leaves out.
package model
