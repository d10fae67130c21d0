// Package efficiency measures what the vertex filter finds: it simulates events, has the filter judge them, and holds
// decisions and vertices against the truth, which the filter never sees.
//
// It stands for the studies of the level-1 algorithm that L1-farm §6.1.2 cites, after the steps of L1-farm §3.4: how
// many decays are found, how much else is kept, how precise vertices are, how long an event takes.
//
// What the caller must do: Measure, then Print or WritePage.
//
// What it does not promise: that a share here is one of the real experiment. The simulation is that of package
// velo/frontend.
package efficiency
