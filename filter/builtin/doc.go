// Package builtin is the table of the built-in filters, from which a text chooses one.
//
//  1. Parse reads a text such as vertex or share:0.04 into a Choice. The error is a sentence.
//  2. Choice.OpenFilters makes as many Filters as there are goroutines that judge.
package builtin
