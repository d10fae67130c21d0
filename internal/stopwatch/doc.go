// Package stopwatch adds up the time that a goroutine spends on one kind of work or wait, so that an operator sees
// during a run what each goroutine waits for (NIC-crossbar §3.1.4: timers on everything).
//
// A StallDetector tells for how long a count has not changed. WithStallTimeout ends an action whose count stalls, such
// as a copy of any size: the action may take any time while it makes progress.
//
// What the caller must do: call Start and Stop around the timed code, from one goroutine; call Total from any. The zero
// Stopwatch is ready.
//
// A start and a stop read the clock twice: time blocks or batches with it, and not single fragments.
package stopwatch
