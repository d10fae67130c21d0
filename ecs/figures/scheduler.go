package figures

import (
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
	"ringlet/tagnet/core"
)

// queues are the queues of a scheduler: its own, then the slots of each builder unit.
func queues(reg *core.Registers) (all []*ecsv1.Queue) {
	add := func(name string, d *tagnetv1.Depth) {
		if d != nil {
			all = append(all, &ecsv1.Queue{Name: name, Depth: d})
		}
	}
	add("ready", reg.GetReady())
	add("cycles", reg.GetCycles())
	add("window", reg.GetWindow())
	add("again", reg.GetAgain())
	add("tags", reg.GetTags())
	add("triggers", reg.GetTriggers())
	for _, u := range reg.GetBus() {
		add("slots of "+u.GetName(), u.GetUsed())
	}
	return all
}

// groups are the free slots of the groups of builder units; without groups, each builder unit is one.
func groups(reg *core.Registers) (all []*ecsv1.Group) {
	units := map[string]*core.BURegister{}
	for _, u := range reg.GetBus() {
		units[u.GetName()] = u
		if len(reg.GetGroups()) == 0 {
			all = append(all, &ecsv1.Group{Nodes: []string{u.GetName()}})
		}
	}
	for _, g := range reg.GetGroups() {
		all = append(all, &ecsv1.Group{Nodes: g.GetMembers()})
	}
	for _, g := range all {
		for _, name := range g.GetNodes() {
			u := units[name]
			g.Slots += u.GetUsed().GetCapacity()
			if !u.GetExcluded() {
				g.Free += u.GetFree()
			}
		}
	}
	return all
}
