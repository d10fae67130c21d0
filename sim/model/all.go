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
		level1.Models(),                          // L1-farm
		tagfarm.Models(),                         // TagNet-farm
		lhcb.Models(),                            // LHCb-EB
		[]study.Model{bridgeWrite, bridgeStream}, // SCI-bridge
		[]study.Model{crossbarModel, creditRoundTrip, cumulativeCredits, twoCards}, // NIC-crossbar
		linked.Models(), // the product's own link
	)
}
