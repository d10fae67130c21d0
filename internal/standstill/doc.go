// Package standstill decides how long a unit waits for another one before it goes on without it: longer than the waits
// that it has seen, and at least Least. It is a pure core, without a clock: its owner tells it the time.
//
// A busy machine must not make a unit give up: if the unit itself gets no processor, the time does not count. So the
// owner looks every Tick, and between two looks at most twice this time counts.
//
// What the caller must do: call Wait at every look while it waits, End when what it waited for came, and GiveUp when it
// goes on without it.
package standstill
