// Package plural writes numbers and ranges for reports and findings as people do: "source 5", but "sources 5 to 7". All
// texts with a range use it.
//
// It has no state, and imports nothing of Ringlet.
package plural
