// Package plural says numbers as people do in reports and findings: one is no range, and has no plural. All that says
// a range says it through this package.
//
// It keeps nothing, and imports nothing of Ringlet.
package plural
