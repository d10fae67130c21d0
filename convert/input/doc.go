// Package input reads files of MDF records, MEPs or MFPs (docs/format), and the directories of recorded runs. It makes
// a row of each fragment or, if containers are unfolded, of each bank.
//
// # How to use it
//
// Open determines the formats of the inputs. Each then passes all rows to a Consumer, one unit (record, MEP, MFP) after
// another, and reports after each unit the Position from which a later Each can continue. Memory holds one unit.
//
// A unit that cannot be read is a *BadError with file, record and offset. If the Consumer's Bad returns an error, Each
// ends with it; otherwise the unit is left out. Only a container with other content than banks is not left out: it
// becomes one row.
//
// # The event number of a row
//
// MEPs and MFPs contain it. MDF records do not: in a recording the index has it, and records of files are numbered from
// 0, over all files. Rows of MDF records have orbit and bunch; in other rows these are 0.
//
// # Runs of one measurement
//
// With Once, Each leaves out fragments (source and event) that an earlier input has, and reports them to the Consumer.
// It keeps up to spansMost ranges of event numbers for that; more are an error. To continue from a Position, Each reads
// the input before it again. It does not compare fragments: those with the same numbers count as the same.
//
// # What it does not promise
//
// It does not decode banks. In a file of MFPs events come source by source.
package input
