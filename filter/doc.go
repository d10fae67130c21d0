// Package filter defines what a filter is: the interface that a user implements, and the decisions that follow from
// it.
//
// It stands for the level-1 farm of the founding documents (L1-farm §3 and §6; TagNet-farm §II): a program judges each
// whole event, and says by a deadline whether the event is wanted.
//
// # What the caller of a Filter must do, in order
//
//  1. Make a Filter for each goroutine that judges: one goroutine at a time calls a Filter.
//  2. Call Judge for each event, with its deadline. The event is a view: no goroutine may write to it until Judge
//     returns.
//  3. Make the verdict that counts with FinalVerdict, from what Judge returned and when.
//
// # What it does not promise
//
// A Filter that does not check its deadline cannot be stopped. The caller goes on without it, and lets the event pass.
package filter
