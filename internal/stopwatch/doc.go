// Package stopwatch adds up the time that a goroutine spends at something, so that who waits for what can be seen while
// a run goes on (NIC-crossbar §3.1.4: timers on everything).
//
// A StallDetector tells for how long a count has not moved, and WithStallTimeout bounds what may take any time as long
// as it moves.
//
// What the caller must do: Start and Stop around what is to be timed, from one goroutine; Read from any. The zero
// Stopwatch is ready.
//
// It does not promise to be free: a start and a stop cost two readings of the clock, so it is for what happens once per
// block or batch.
package stopwatch
