// Package figures holds the figures of the founding documents, one file each, lets the models answer them, and tells
// how near they come: as a table, as JSON, and as one page that loads nothing.
//
// It stands for the documents' own tables and plots: 000 and 001 (a trigger farm over SCI), 002 (LHCb's event builder),
// 003 (a PCI-SCI bridge) and 004 (a card and a crossbar).
//
// What the caller must do: All, Answer with a table of models, then one of the writers. The same seed gives the same
// bytes of JSON.
//
// It does not promise the documents right: what they leave out or contradict stands in the files under missing and
// reading.
package figures
