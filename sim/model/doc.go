// Package model holds the models of the founding documents. A model reads its parameters from a study, plays them with
// the engine and the parts of the simulator, and gives results by name.
//
// It stands for the machines that the documents measured: the level-1 farm of 000, the TagNet farm of 001, LHCb's event
// builder of 002, the PCI-SCI bridge of 003, the card and the crossbar of 004.
//
// What the caller must do: hand All to study.Study.Run.
//
// It does not promise anything of machines that the documents do not describe; docs/simulator.md says what each model
// leaves out.
package model
