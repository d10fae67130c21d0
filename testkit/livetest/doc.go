// Package livetest has a live source that a test drives: the test sends fragments in place of a front-end. A test of a
// whole run adds NewRow to the table of sources, and removes it afterwards.
package livetest
