// Package registry is what tables of kinds have in common: barriers, disciplines, carriers, sources and sinks are each
// one table in the package that owns them, and a row begins with a Kind. Configuration, help, checks and manuals read
// the rows.
//
// A row may be added and no name may change: configurations and recorded runs hold names.
//
// NameOf is for what has numbers and no table: states, reasons, messages.
package registry
