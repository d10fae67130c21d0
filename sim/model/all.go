package model

import "ringlet/sim/study"

// All are the models, by the documents they stand for.
func All() []study.Model {
	return []study.Model{
		bridgeWrite, bridgeStream, // 003
	}
}
