// Package spawn starts the processes of nodes on this machine, and notices when they end.
//
// The caller calls Spawn, as often as it likes, and Stop in the end, which waits for all processes.
//
// It does not promise that a process is ready: a node joins the cluster when it is.
package spawn
