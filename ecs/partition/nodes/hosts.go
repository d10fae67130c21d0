package nodes

import (
	"ringlet/ecs/figures"
	"ringlet/node"
	"ringlet/node/config"
	nodev1 "ringlet/proto/ringlet/node/v1"
)

// HostTimes is how long packets waited in the hosts of nodes, in µs: from the kernel's time stamp until the process
// read them. It is the part of each step of a latency that does not belong to the network (TagNet-farm §IV.D, table
// IV-3). A node with several units counts for each of them.
type HostTimes struct {
	ReadoutUs  *Quantiles4 `json:"readout_us,omitempty"`
	BuilderUs  *Quantiles4 `json:"builder_us,omitempty"`
	DecisionUs *Quantiles4 `json:"decision_us,omitempty"` // of the node with the decision unit
}

// fillHostTimes fills in the host times, if packets have the kernel's time stamps.
func (r *Report) fillHostTimes(cfg *config.Completed, reports []*nodev1.Report) {
	if !cfg.Debug.Stamps {
		return
	}
	quantilesWhere := func(matches func(*nodev1.Report) bool) *Quantiles4 {
		var some []*nodev1.Report
		for _, rep := range reports {
			if matches(rep) {
				some = append(some, rep)
			}
		}
		h := figures.MergeHistograms(some, node.HistogramKernelDelay)
		if h == nil || h.TotalCount() == 0 {
			return nil
		}
		q := quantiles4(h)
		return &q
	}
	r.HostTimes = &HostTimes{
		ReadoutUs:  quantilesWhere(func(rep *nodev1.Report) bool { return rep.GetSeat().GetReadout() }),
		BuilderUs:  quantilesWhere(func(rep *nodev1.Report) bool { return rep.GetSeat().GetBuilder() }),
		DecisionUs: quantilesWhere(func(rep *nodev1.Report) bool { return rep.GetName() == cfg.DecisionNode }),
	}
}
