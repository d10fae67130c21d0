// Command ringlet-convert makes files for analysis from recorded data: Parquet, ROOT, HDF5, NumPy and JSON lines from
// MDF records, MEPs, MFPs and the directories of runs. It has the flags, the progress on the terminal and the exit
// codes of package conversion. It is a module of its own, since the libraries of these formats are large.
//
//	ringlet-convert run-000123 --output rows              # a directory of Parquet files
//	ringlet-convert --banks minbias.mdf --output x.root   # one file
//	ringlet-convert run-000123 run-000124 --once -o y/    # each fragment of two runs once
//
// Exit codes: 0 done, 1 failed, 2 wrong usage or the output is there, 3 damaged input. docs/analysis.md tells its use,
// docs/design/049-convert.md the reasons.
package main
