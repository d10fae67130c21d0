// Package registry has the code for tables of kinds. Barriers, disciplines, carriers, sources and sinks are each one
// table in the package that owns them, and each row embeds a Kind. Configuration, help, checks and manuals read the
// rows.
//
// A row may be added, but no name may change: configurations and recorded runs contain names.
//
// NameOf is for numbers without a table: states, reasons, messages.
package registry
