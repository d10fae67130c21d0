// Package page is the page of the run control: one page for a shift crew, embedded
// into the program. It stands for LHCb-EB §III.A, and NIC-crossbar §3.1.4: what is steered can be watched, with
// counters and timers on everything.
//
// The page is HTML, a style and ECMAScript modules as browsers take them: no
// framework, no build step, nothing from a network. Its policy lets it load from
// where it came from and nowhere else. It holds no data: everything that it shows it
// asks of the HTTP/JSON API of ecs/api, with the rights of whoever looks at it.
//
// The modules in web/js, from the bottom up:
//
//	logic.js      what can be decided without a browser: figures, words, histories (tested with node --test)
//	decisions.js  likewise of decisions and filters: sums, rates, times on one axis
//	display.js    likewise of the drawing of an event: windows, ticks, what was accepted of what happened
//	quality.js    likewise of sources and events: cells of the heat map, conditions, raw banks, dumps
//	dom.js        elements from data, as text only; lists that keep what has the focus
//	api.js        requests, streams, and whether the control is there
//	charts.js     curves, heat table, timeline of phases (drawn by internal/uplot), histogram
//	heat.js       the heat map of sources by time
//	commands.js   buttons and forms made of DescribeFSM, the plan before what is destructive
//	view_*.js     a screen each
//	main.js       which screen, which keys, which colours
//
// # What the caller must do, in order
//
//  1. Mount [Handler] at / of the listener that has the API under /v1/.
//  2. Let the handler answer without a session: the page itself asks for the token
//     when the API refuses it. There is nothing secret in it.
//
// # What it does not promise
//
// It authorises nothing: a button that is there for a viewer by mistake would be
// refused by the API. It shows the last five minutes, and what the API remembers; it
// is no archive.
package page
