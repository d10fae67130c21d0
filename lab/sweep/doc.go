// Package sweep runs many configurations and makes a report of them: `ringlet bench sweep FILE.yaml`.
//
// It compares disciplines as the founding documents do: the same system, with one thing changed at a time, over a range
// of sizes (the curves of rate against size, latency against load, rate against suspension time). A sweep varies
// settings of node/config by their own names, so every setting of a run can be varied.
//
// A caller does, in this order:
//
//  1. Load a sweep file. Load completes every combination as a configuration and hands it to the program's own parser
//     of command lines, before anything is created: *config.InvalidError names file and line;
//  2. Run it. Each run is a process of the program, spawned as a user would; Run reads its report from its standard
//     output. The order is random within each round, so that a change of the machine's load does not look like an
//     effect of a setting. References are measured in between; a reference that the file names is measured once in each
//     round, so that bounds can be judged by ratios of one round;
//  3. find in the directory results.jsonl (a line for each run, on the disk before the next begins), results.csv and
//     report.html. The latter two are functions of the first: a sweep that was interrupted and resumed ends with the
//     same files.
//
// Decisions are pure functions: reading a file, the order, the load of a port, the medians, the choice of figures. The
// page only draws the figures that it gets.
//
// It does not promise that the machine is quiet: it reports the machine, and the references with their times.
package sweep
