// Package input reads what is to be converted: files of MDF records, MEPs or MFPs, and the directories of recorded
// runs. It gives rows: one for each fragment, or one for each bank where containers are to be unfolded. It stands for
// the formats of docs/format.
//
// # How to use it
//
// Open finds out what the inputs are. Each then gives all rows to a Consumer, one unit (record, MEP, MFP) after
// another, and says after each unit from which Position a later Each goes on. Memory holds one unit.
//
// A unit that cannot be read is a *BadError with file, record and offset. The Consumer decides: an error from Bad ends
// it, otherwise the unit is left out. Only a container that holds something else than banks is not left out: it comes
// as it is.
//
// # Which event a row is of
//
// MEPs and MFPs say it. An MDF record does not: in a recording its index does, and in a file alone events are numbered
// from 0 in the order of the records, over all files. Rows of MDF records have orbit and bunch, others have 0.
//
// # Runs of one measurement
//
// With Once Each leaves out the fragments (source and event) that an input before has, and tells the Consumer. It holds
// ranges of event numbers for that, spansMost of them; more are an error. A later Each reads once more what is before
// its Position. Fragments are not compared: what has the same numbers is the same.
//
// # What it does not promise
//
// It does not decode banks. In a file of MFPs events come source by source.
package input
