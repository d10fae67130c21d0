package figure

import (
	"context"
	"math"
)

// Rule says when a point holds.
type Rule int

// The rules.
const (
	Within     Rule = iota // the model is within 10 % of the document
	AtLeast                // the model is not below the document
	AtMost                 // the model is not above the document
	Difference             // both are differences in per cent: the same sign, and within 2 points
	Exactly                // both are equal: counts, orderings (1 for true)
)

func (r Rule) String() string {
	return [...]string{"within 10 %", "at least", "at most", "within 2 points", "exactly"}[r]
}

// Point is one value of a figure.
type Point struct {
	What     string
	Unit     string
	Document float64
	Model    float64
	Rule     Rule
}

// Holds reports whether the model agrees with the document.
func (p Point) Holds() bool {
	switch p.Rule {
	case AtLeast:
		return p.Model >= p.Document
	case AtMost:
		return p.Model <= p.Document
	case Difference:
		return p.Model*p.Document > 0 && math.Abs(p.Model-p.Document) <= 2
	case Exactly:
		return p.Model == p.Document
	default:
		return math.Abs(p.Deviation()) <= 0.1
	}
}

// Deviation is the model over the document, less one.
func (p Point) Deviation() float64 { return p.Model/p.Document - 1 }

// True is the point of an ordering or a condition that must hold.
func True(what string, holds bool) Point {
	p := Point{What: what, Document: 1, Rule: Exactly}
	if holds {
		p.Model = 1
	}
	return p
}

// Figure is a figure of the documents and the model that gives its points.
type Figure struct {
	ID    string // F45
	Place string // section, figure or table in the document
	Title string
	Note  string // doubts, fitted parameters; may be empty
	Run   func(ctx context.Context, seed uint64) ([]Point, error)
}
