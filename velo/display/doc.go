// Package display shows what the vertex filter finds in one event: its hits, tracks and vertices, for a page to draw.
//
// It stands for the event display on the page of the run control. The page has events of the
// tap, fragments and all; it posts those of one event, and gets the answer of the same code that judges events in
// builder units, so what is drawn is what the filter saw. It may be another filter's run: then it is what this one
// would say.
//
// What the caller must do: mount Handler at Path, for whoever may see events. Truth is where the caller knows what
// happened at an event; nil where nobody does.
//
// What it does not promise: the filter's own verdict. That was given in a builder unit, maybe after its deadline, and
// with fragments that a viewer who asks for some sources does not have.
package display
