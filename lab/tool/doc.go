// Package tool runs other programs for the packages of the lab: iperf3, OpenMPI, and this project's programs as a user
// would run them.
//
// A program dies with the process that runs it, ends in good order when its context ends, and if it fails, the error
// has its last line of output. The caller describes the program in a Command, and bounds it by the context.
package tool
