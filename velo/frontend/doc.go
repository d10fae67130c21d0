// Package frontend simulates a silicon-strip vertex detector and its front-end: particles, hits, noise, and the
// preparation of the data up to the fragment of each board.
//
// It stands for the Vertex Locator and the off-detector electronics of L1-farm §3.1, §3.2 and §6.1.1. The formats and
// the geometry are those of package velo.
//
// The way of an event, in one goroutine:
//
//  1. simulator.simulate draws the vertices and the particles: the truth.
//  2. Every particle leaves charge on the strips of the sensors that it passes.
//  3. The boards make clusters of it, in one of two ways. Suppressed: noise is drawn only where it passes the
//     threshold, which is fast. Raw: every strip gets an 8-bit value with pedestal, noise and common mode, and the
//     front-end prepares these as it would those of a real detector, in pure functions (file prepare.go).
//     Both have the same distributions; a test holds that.
//  4. Maker.FillMFP writes the fragments of a board for many events.
//
// # What the caller must do
//
// Check a Config by New, which gives the Detector: immutable, for any number of goroutines. NewMaker makes fragments;
// one goroutine calls it.
//
// # Bit-exact
//
// An event is a function of the configuration, the seed and its number. Particles have a generator of their own, and so
// has each board, so it does not matter which boards are made, in which order, and by how many goroutines. Functions of
// package math are not rounded alike on every architecture: the bytes are the same on processors of one kind.
//
// # What it does not promise
//
// It is no model of physics. Particles go straight and scatter in silicon alone; only decays of B mesons and neutral
// kaons have displaced vertices; there are no interactions with matter. What is tuned, and to what, docs/design/045
// says. Nothing here is seen by a filter: truth goes to a file of its own.
package frontend
