// Package efficiency measures what the vertex filter finds: it simulates events, has the filter judge them, and holds
// decisions and vertices against the truth, which the filter never sees.
//
// It stands for the studies of the level-1 algorithm that document 000 cites (000:1492-1500; seed W5): how many decays
// are found, how much else is kept, how precise vertices are, how long an event takes.
//
// What the caller must do: Measure, then Print or WritePage.
//
// What it does not promise: that a share here is one of the real experiment. The simulation is that of package
// readoutunit/source/frontend.
package efficiency
