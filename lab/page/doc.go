// Package page writes what a bench or a sweep has measured as one file of HTML that loads nothing: tables, figures
// that its script draws with uPlot, timelines of phases, and the machine.
//
// It stands for the demand that a figure is judged with its spread, beside others, and with the machine it is of.
//
// What the caller must do: decide what there is to draw, fill a Page, Write it. ThisMachine reads the machine that it
// runs on.
//
// It does not promise that two versions draw alike: the figures as numbers are in the JSON of a bench and in the lines
// of a sweep.
package page
