// Package builtin is the table of the filters that are built in, and how one is chosen by a text.
//
//  1. Parse a text such as vertex or share:0.04 to a Choice. What is wrong with it is said in a sentence.
//  2. Choice.OpenFilters makes as many Filters as there are goroutines that judge.
package builtin
