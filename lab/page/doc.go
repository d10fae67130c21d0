// Package page writes the results of a bench or a sweep as one HTML file that loads nothing: tables, figures that its
// script draws with uPlot, timelines of phases, and the machine.
//
// It shows each figure with its spread, beside others, and with the machine it was measured on.
//
// What the caller must do: decide what to draw, fill a Page, Write it. ThisMachine reads the machine that it runs on.
//
// Two versions may draw differently: the figures as numbers are in the JSON of a bench and in the lines of a sweep.
package page
