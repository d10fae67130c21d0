package model

import (
	"slices"

	"ringlet/sim/documents/level1"
	"ringlet/sim/documents/tagfarm"
	"ringlet/sim/lhcb"
	"ringlet/sim/study"
)

// All lists the models, by document.
func All() []study.Model {
	return slices.Concat(
		level1.Models(),                          // L1-farm
		tagfarm.Models(),                         // TagNet-farm
		lhcb.Models(),                            // LHCb-EB
		[]study.Model{bridgeWrite, bridgeStream}, // SCI-bridge
		[]study.Model{crossbarModel, creditRoundTrip, cumulativeCredits, twoCards}, // NIC-crossbar
	)
}
