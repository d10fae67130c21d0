// Package sweep runs many configurations and makes a report of them: `ringlet bench sweep FILE.yaml`.
//
// It stands for the founding documents' way of comparing disciplines: the same system, with one thing changed at a
// time, over a range of sizes (the curves of rate against size, latency against load, rate against suspension time).
// What a sweep varies are settings of node/config by their own names, so whatever a run can be told a sweep can vary.
//
// A caller does, in this order:
//
//  1. Load a sweep file. Every combination is completed as a configuration, and given to the program's own parser of
//     command lines, before anything is created: *config.InvalidError names file and line;
//  2. Run it. Each run is a process of the program, spawned as a user would, its report read from its standard output.
//     The order is random within each round, so that what the machine does meanwhile does not look like an effect of a
//     setting; references are measured in between, and those that the file names once in each round, so that bounds can
//     be judged by ratios of one round;
//  3. find in the directory results.jsonl (a line a run, on the disk before the next begins), results.csv and
//     report.html. The latter two are functions of the first: a sweep that was broken off and resumed ends with what it
//     would have had at once.
//
// What is decided is decided in pure functions: reading a file, the order, what a port carries, the medians, which
// figures there are. The page only draws figures that it is given.
//
// It does not promise that a machine is quiet: it says what the machine is, when the references were taken and what
// they were.
package sweep
