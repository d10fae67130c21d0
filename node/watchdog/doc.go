// Package watchdog ends a process that does not end by itself: its parent is gone, or one of its loops stands still.
//
// It exists because a readout unit once went round in one loop for hours: it answered no request, ignored the end of
// its run, and stayed when the program that had started it was killed.
//
// # How it knows
//
// The watchdog counts ticks of a second each on a thread of its own. At every tick it starts a probe of each loop, on
// another goroutine, unless one is under way: the probe takes the locks that the loop holds while it works, and waits
// for nothing else. If a probe does not return within 60 ticks, the loop stands still. The watchdog does not go by the
// time of day: when the whole process is stopped, or gets no processor, the watchdog stops, too.
//
// # Core and shell
//
// core counts ticks and decides. Watcher is its shell.
//
// # What the caller must do
//
// The parent puts ChildEnv into the environment of a process that it starts, and ends the process in good order: with
// SIGTERM, by the kernel (Pdeathsig). The process calls Start once, and AddLoop for every loop.
//
// # What it does not promise
//
// It does not notice a loop that stands still without holding a lock that its probe takes, nor one that waits, for a
// disk for example: such waits have bounds of their own.
package watchdog
