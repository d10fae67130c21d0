// Package page is the web page of the run control, for a shift crew, embedded into the program. It stands for LHCb-EB
// §III.A and NIC-crossbar §3.1.4: what is steered can be watched, with counters and timers on everything.
//
// The page is HTML, a style sheet and ECMAScript modules: no framework, no build step. Its content security policy
// allows loads from its own origin only. It holds no data: it asks the HTTP/JSON API of ecs/api for all that it shows,
// with the role of its user.
//
// The modules in web/js, from the bottom up:
//
//	logic.js      pure functions without a browser: figures, words, histories (tested with node --test)
//	decisions.js  pure functions for decisions and filters: sums, rates, times on one axis
//	registers.js  pure functions for the scheduler's registers
//	display.js    pure functions for drawing an event: windows, ticks, acceptance
//	quality.js    pure functions for sources and events: cells of the heat map, conditions, raw banks, dumps
//	dom.js        elements from data, as text only; lists that keep the focus
//	api.js        requests, streams, and whether the control answers
//	charts.js     curves, heat table, timeline of phases (drawn by internal/uplot), histogram
//	heat.js       the heat map of sources by time
//	values.js     the table of slow data
//	commands.js   buttons and forms by DescribeFSM, with the plan before a destructive command
//	view_*.js     a screen each
//	main.js       the choice of screen, keys, colours
//
// # What the caller must do, in order
//
//  1. Mount [Handler] at / of the listener that has the API under /v1/.
//  2. Serve it without a session: when the API refuses the page, the page asks its user for the token. The page has no
//     secrets.
//
// # What it does not promise
//
// It authorises nothing: if a viewer sees a button by mistake, the API refuses the command. It is no archive: it shows
// the last five minutes, and what the API keeps.
package page
