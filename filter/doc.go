// Package filter is what a filter is: the interface that a user implements, and the decisions that come of it.
//
// It stands for the level-1 farm of the founding documents (L1-farm §3 and §6; TagNet-farm §II): a
// program looks at each event that is whole, and says by a deadline whether the event is wanted.
//
// # What the caller of a Filter must do, in order
//
//  1. Make a Filter for each goroutine that judges: a Filter is asked by one goroutine at a time.
//  2. Ask Judge for each event, with its deadline. The event is a view: nobody may write to it until Judge returns.
//  3. Make the Decision with FinalVerdict, of what Judge said and of how long it took.
//
// # What it does not promise
//
// Nothing stops a Filter that does not look at its deadline. Whoever asks goes on without it, and lets the event pass.
package filter
