// Package conversion makes files for analysis from recorded data: package input reads rows, package output writes them
// (docs/design/049-convert.md).
//
// # How to use it
//
// Run does a whole conversion. The output is a file if its name has the ending of a kind. It is a directory if the name
// has no ending, if it ends with /, or if To gives the kind. Any other ending is refused.
//
// A directory is written under the name OUT.partial: numbered parts, and the journal _convert.json, which lists
// complete parts and says where the input continues. After each part, Run syncs the files and then replaces the
// journal. If a conversion is killed and run again with the same input, it continues after its last complete part. At
// the end Run renames the directory. A single file is written under OUT.partial too, but a killed conversion begins it
// anew.
//
// A conversion that fails before its first part is complete leaves nothing.
//
// The name of the output appears only at the end. An existing output is replaced with Force only, and a directory only
// if a conversion has made it.
//
// A lock on OUT.partial lets one process at a time convert to an output. One goroutine does everything.
package conversion
