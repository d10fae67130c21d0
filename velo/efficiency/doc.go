// Package efficiency measures the vertex filter: it simulates events, lets the filter judge them, and compares
// decisions and vertices with the truth, which the filter never sees.
//
// It stands for the studies of the level-1 algorithm that L1-farm §6.1.2 cites, after the steps of L1-farm §3.4: how
// many decays the filter finds, how many other events it keeps, how precise vertices are, how long an event takes.
//
// What the caller must do: Measure, then Print or WritePage.
//
// The shares are those of the simulation in package velo/frontend, and not of the real experiment.
package efficiency
