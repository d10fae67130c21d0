// Package display finds the hits, tracks and vertices of one event with the vertex filter, for a page to draw.
//
// It serves the event display on the page of the run control. The page has events of the tap with their fragments; it
// posts the fragments of one event and gets the answer of the same code that judges events in builder units. If the run
// has another filter, the answer is what the vertex filter would have found.
//
// What the caller must do: mount Handler at Path, for users who may see events. Config.Truth is for a caller that knows
// the truth of simulated events.
//
// What it does not promise: the verdict of the run's filter. A builder unit gave that one, perhaps after a deadline,
// and with all fragments, while the viewer may have asked for some sources only.
package display
