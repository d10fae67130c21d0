package nodes

import (
	"ringlet/builderunit/recording"
	"ringlet/ecs/figures"
	nodev1 "ringlet/proto/ringlet/node/v1"
)

// lacking says which readout units were gone for a part of the run, and what is missing for that.
func (r *Run) lacking(reports []*nodev1.Report) (all []recording.Lacking) {
	nodes := map[int]string{}
	for _, m := range r.View().GetMembers() {
		if m.GetReadout() {
			nodes[int(m.GetRuIndex())] = m.GetName()
		}
	}
	for _, m := range figures.Missing(reports) {
		ru, streams := int(m.GetRuIndex()), r.cfg.Streams
		all = append(all, recording.Lacking{
			Node:        nodes[ru],
			ReadoutUnit: ru,
			FirstSource: ru * streams,
			LastSource:  (ru+1)*streams - 1,
			MEPs:        m.GetMeps(),
			Events:      m.GetEvents(),
			FirstMEP:    m.GetFirstMep(),
			LastMEP:     m.GetLastMep(),
		})
	}
	return all
}
