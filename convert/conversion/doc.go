// Package conversion makes files for analysis from recorded data: rows of package input, written by package output. It
// stands for design note 049.
//
// # How to use it
//
// Run does a whole conversion. The output is a file if its name ends like one of the kinds, and a directory if it
// has no ending, if / stands behind it, or if To says what it holds. Any other ending is refused.
//
// A directory grows under the name OUT.partial: numbered parts, and the journal _convert.json, which says which parts
// are whole and where the input goes on. After each part everything is synchronised, then the journal is replaced. So a
// conversion that was killed goes on behind its last part when it is run again with the same input. At the end the
// directory is renamed. A file grows under OUT.partial too, and is begun anew.
//
// A conversion that fails before its first part is whole leaves nothing.
//
// Until its end nothing stands under the name of the output. What stands there already is replaced with Force only, and
// a directory only if a conversion made it.
//
// One process converts to an output at a time, by a lock on OUT.partial. One goroutine does everything.
package conversion
