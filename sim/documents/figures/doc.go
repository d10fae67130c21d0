// Package figures holds the figures of the founding documents, one file each, lets the models answer them, and tells
// how near they come: as a table, as JSON, and as one page that loads nothing.
//
// It stands for the documents' own tables and plots: L1-farm and TagNet-farm (a trigger farm over SCI), LHCb-EB (LHCb's
// event builder), SCI-bridge (a PCI-SCI bridge) and NIC-crossbar (a card and a crossbar); docs/sources.md has their
// titles.
//
// What the caller must do: All, Answer with a table of models, then one of the writers. The same seed gives the same
// bytes of JSON.
//
// It does not promise the documents right: what they leave out or contradict stands in the files under missing and
// reading.
package figures
