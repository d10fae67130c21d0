// Package spawn starts the processes of nodes on this machine, and sees them end.
//
// What the caller must do: Spawn, as often as it likes; Stop in the end, which waits for all of them.
//
// It does not promise that a process is ready: it joins the cluster when it is.
package spawn
