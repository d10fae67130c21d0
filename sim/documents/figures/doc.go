// Package figures has the figures of the founding documents, one file each. It has the models answer them, and reports
// how near they come: as a table, as JSON, and as one page that loads nothing.
//
// The figures are the documents' own tables and plots: L1-farm and TagNet-farm (a trigger farm over SCI), LHCb-EB
// (LHCb's event builder), SCI-bridge (a PCI-SCI bridge) and NIC-crossbar (a card and a crossbar); docs/sources.md has
// their titles.
//
// What the caller must do: All, Run with a table of models, then one of the writers. The same seed gives the same bytes
// of JSON.
//
// It does not promise that the documents are right: the keys missing and reading of the files say what the documents
// leave out or contradict.
package figures
