// Package tool runs other programs for the packages of the lab: iperf3, OpenMPI, and the project's own as a user would.
//
// A program dies with the process that runs it, ends in good order when its context does, and where it fails the error
// has the last line that it wrote. The caller says with Command what to run, and bounds it by the context.
package tool
