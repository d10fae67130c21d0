package model

import (
	"slices"

	"ringlet/sim/level1"
	"ringlet/sim/lhcb"
	"ringlet/sim/linked"
	"ringlet/sim/study"
	"ringlet/sim/tagfarm"
)

// All are the models, by the documents they stand for.
func All() []study.Model {
	return slices.Concat(
		level1.Models(),                          // 000
		tagfarm.Models(),                         // 001
		lhcb.Models(),                            // 002
		[]study.Model{bridgeWrite, bridgeStream}, // 003
		[]study.Model{crossbar, roundTrip, cumulative, twoCards}, // 004
		linked.Models(), // the product's own link
	)
}
