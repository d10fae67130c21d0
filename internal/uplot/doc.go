// Package uplot holds the one copy of uPlot, which draws curves in a browser. The
// report of a sweep embeds it into its file, the page of the run control serves it,
// and both draw with the same, pinned version. phases.js has the drawing code that
// both share: colours, axes and the timeline of phases.
//
// The other files are those of `npm pack uplot@1.6.32`, unchanged. To renew them, unpack
// another version's dist/uPlot.iife.min.js, dist/uPlot.min.css and LICENSE into this
// folder and say so in [Version]: the test compares it with what the script says.
//
// What the caller must do: distribute the script with its licence. What it does not
// promise: that uPlot's functions are the same in another version.
package uplot

import _ "embed"

// Version of the files.
const Version = "1.6.32"

// Script defines the global uPlot.
//
//go:embed uPlot.iife.min.js
var Script string

// Style belongs to the script.
//
//go:embed uPlot.min.css
var Style string

// License goes with both: MIT.
//
//go:embed LICENSE
var License string

// PhasesScript is an ECMAScript module of this project, without imports, that draws the timeline of phases.
//
//go:embed phases.js
var PhasesScript string
