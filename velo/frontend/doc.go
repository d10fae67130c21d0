// Package frontend simulates a silicon-strip vertex detector and its front-end: particles, hits, noise, and the
// preparation of the data up to the fragment of each board.
//
// It stands for the Vertex Locator and the off-detector electronics of L1-farm §3.1, §3.2 and §6.1.1. The formats and
// the geometry are those of package velo.
//
// How an event is made, in one goroutine:
//
//  1. simulator.simulate draws the vertices and the particles: the truth.
//  2. Every particle leaves charge on the strips of the sensors that it passes.
//  3. The boards make clusters of the charge, in one of two ways. Suppressed: only noise that passes the threshold is
//     drawn, which is fast. Raw: every strip gets an 8-bit value with pedestal, noise and common mode, and pure
//     functions prepare the values as a real front-end does (file prepare.go). Both give the same distributions, which
//     a test checks.
//  4. Maker.FillMFP writes the fragments of a board for many events.
//
// # What the caller must do
//
// New checks a Config and makes a Detector, which any number of goroutines may share. NewMaker makes a Maker of
// fragments, for one goroutine.
//
// # Bit-exact
//
// An event is a function of the configuration, the seed and its number. The particles and each board have their own
// random generators: the result does not depend on which boards are made, in which order, and by how many goroutines.
// Functions of package math round differently on different architectures: only processors of one kind give equal bytes.
//
// # What it does not promise
//
// It is no model of physics. Particles go straight and scatter in silicon alone; only decays of B mesons and neutral
// kaons have displaced vertices; there are no interactions with matter. docs/design/052 lists the tuned parameters and
// their targets. A filter sees the fragments alone: the truth goes to a file of its own.
package frontend
