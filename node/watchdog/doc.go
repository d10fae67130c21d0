// Package watchdog ends a process that does not end by itself: one whose parent is gone, and one of which a loop stands
// still.
//
// It stands for a readout unit that went round in one loop for hours: it answered nothing, ignored the end of its run,
// and stayed when the program that had started it was killed.
//
// # How it knows
//
// A watch on a thread of its own counts its own ticks, of a second each. At every tick it has each thing that it looks
// after looked at, on another goroutine: a look takes the locks that the loops there hold while they work, and waits
// for nothing else. A look that has not come back after 60 ticks says that a loop stands still. The time of day does
// not count: whoever stops the whole process, or gives it no processor, stops the watch too.
//
// # Core and shell
//
// core counts ticks, and says what to do. Watcher is its shell.
//
// # What the caller must do
//
// Whoever starts a process puts ChildEnv into its environment, and ends it in good order: with SIGTERM, by the kernel
// (Pdeathsig). That process calls Start once; Watch for everything that is to be looked after.
//
// # What it does not promise
//
// It does not see a loop that stands still without a lock that a look takes; nor one that waits, for a disk say: such
// waits have bounds of their own.
package watchdog
