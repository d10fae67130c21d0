package partition_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"ringlet/ecs/partition"
	"ringlet/node/cluster"
	"ringlet/node/config"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// joinedAs are nodes that have joined: "n0:ru n1:spare".
func joinedAs(text string) map[string]cluster.Member {
	out := map[string]cluster.Member{}
	for one := range strings.FieldsSeq(text) {
		name, role, _ := strings.Cut(one, ":")
		out[name] = cluster.Member{Name: name, Meta: cluster.Meta{Roles: cluster.ParseRole(role)}}
	}
	return out
}

func TestLayOut(t *testing.T) {
	for name, c := range map[string]struct{ text, joined, want string }{
		"no roles":             {"nodes: 3", "n10:both n2:both n1:both n0:both", "n0 n1 n2"},
		"roles against names":  {"rus: 2\nbus: 2", "n0:bu n1:bu n2:ru n3:ru", "n2 n3 n0 n1"},
		"a spare is passed by": {"nodes: 2", "n0:spare n1:both n2:both", "n1 n2"},
		"others fill":          {"rus: 2\nbus: 2", "n0:both n1:bu n2:ru n3:both", "n0 n2 n1 n3"},
		"partly folded":        {"nodes: 3\nrus: 2\nbus: 2", "a:bu b:both c:ru", "c b a"},
		"partly, no roles":     {"nodes: 4\nrus: 3\nbus: 2", "n0:both n1:both n2:both n3:both", "n0 n1 n2 n3"},
		"more than needed":     {"rus: 1\nbus: 1", "n0:bu n1:bu n2:ru n3:ru", "n2 n0"},
		"a decision node": {"nodes: 3\nrus: 1\nbus: 1\ndecision-node: n1", "n0:bu n1:both n2:ru",
			"n2 n1 n0"},
		"no decision node": {"nodes: 3\nrus: 1\nbus: 1\ndecision-node: n1", "n0:bu n2:ru n3:both",
			"members: nodes are missing: the decision-node; there are n0 (bu), n2 (ru), n3 (both)"},
		"none to read": {"rus: 2\nbus: 1", "n0:bu n1:bu n2:spare n3:ru",
			"members: nodes are missing: 1 with --role ru; there are n0 (bu), n1 (bu), n2 (spare), n3 (ru): start more " +
				"nodes, or name members with other roles"},
	} {
		cfg, err := config.Compose("x", []byte(c.text), nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		names, err := partition.LayOut(&cfg, joinedAs(c.joined))
		got := strings.Join(names, " ")
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %s\nwant %s", name, got, c.want)
		}
	}
}

// TestLayOutProperty holds that whoever is chosen can hold its units and is no spare, that nobody is chosen twice, that
// a layout is found exactly if there is one, and that nodes without said roles are taken in the order of their names.
func TestLayOutProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 8).Draw(t, "nodes")
		rus := rapid.IntRange(1, n).Draw(t, "rus")
		bus := rapid.IntRange(max(1, n-rus), n).Draw(t, "bus")
		cfg, err := config.Compose("x", fmt.Appendf(nil, "nodes: %d\nrus: %d\nbus: %d", n, rus, bus), nil)
		if err != nil {
			t.Fatal(err)
		}
		var text []string
		count := map[string]int{}
		for i := range rapid.IntRange(0, 14).Draw(t, "joined") {
			role := rapid.SampledFrom([]string{"ru", "bu", "both", "both", "spare"}).Draw(t, "role")
			text = append(text, fmt.Sprintf("n%d:%s", i, role))
			count[role]++
		}
		joined := joinedAs(strings.Join(text, " "))
		names, err := partition.LayOut(&cfg, joined)
		folded := rus + bus - n
		wanting := folded + max(0, rus-folded-count["ru"]) + max(0, bus-folded-count["bu"])
		if possible := wanting <= count["both"]; possible != (err == nil) {
			t.Fatalf("possible is %v, and the answer %v", possible, err)
		}
		if err != nil {
			return
		}
		if err := partition.CheckRoles(&cfg, names, joined); err != nil {
			t.Fatal(err)
		}
		if len(names) != n || len(slices.Compact(slices.Sorted(slices.Values(names)))) != n {
			t.Fatalf("%v are not %d nodes", names, n)
		}
		for _, name := range names {
			if joined[name].Meta.Roles.Contains(cluster.Spare) {
				t.Fatalf("%s is a spare", name)
			}
		}
		if count["ru"]+count["bu"] == 0 {
			all := slices.DeleteFunc(cluster.UnitNames(joined),
				func(name string) bool { return joined[name].Meta.Roles.Contains(cluster.Spare) })
			if !slices.Equal(names, all[:n]) {
				t.Fatalf("%v of %v", names, all)
			}
		}
	})
}

// TestMembersByRole holds that roles make the shape where none is given, and only there.
func TestMembersByRole(t *testing.T) {
	cfg := config.Default()
	cfg.JoinedMembers = partition.MembersByRole(joinedAs("n0:bu n1:ru n2:both n3:spare n4:ru"))
	for text, want := range map[string]string{
		"":                           "n1 n4 n2 n0 3 2",
		"nodes: 2":                   " 2 2",
		"rus: 1\nbus: 2":             " 1 2",
		"nodes: 2\nmembers: 'n0,n2'": "n0 n2 2 2",
		"members: n0:ru, n2:bu":      "n0 n2 1 1",
	} {
		c, err := cfg.Compose("x", []byte(text), nil)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if got := fmt.Sprintf("%s %d %d", strings.Join(c.MemberNames(), " "), c.RUs, c.BUs); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
		if c.JoinedMembers != "" {
			t.Errorf("%q: the configuration holds what has joined", text)
		}
	}
	if got := partition.MembersByRole(joinedAs("n0:both n1:spare")); got != "" {
		t.Errorf("nobody says a role, and members are %s", got)
	}
}

// TestSpareWithRole holds that a spare substitutes only for units that it can hold.
func TestSpareWithRole(t *testing.T) {
	cfg, err := config.Compose("x", []byte("members: n0:ru,n1:ru,n2:bu,n3:bu\nspares: auto"), nil)
	if err != nil {
		t.Fatal(err)
	}
	there := partition.Substitutes(&cfg, cfg.MemberNames(), nil, nil, joinedAs("n1:ru n2:bu n4:bu n5:spare n6:bu"))
	got := map[string]string{}
	for name, m := range there {
		if name != m.Name {
			got[name] = m.Name
		}
	}
	if want := map[string]string{"n0": "n5", "n3": "n4"}; !maps.Equal(got, want) {
		t.Errorf("substitutes are %v, want %v", got, want)
	}
}

// TestRolesAreSaid holds that nodes get the units of their roles, whatever their names; that status and record show
// them, and that a configuration and a move that contradict a role are refused.
func TestRolesAreSaid(t *testing.T) {
	t.Parallel()
	h := newFarmOf(t, []string{"n0", "n1", "n2", "n3", "n4"},
		map[string]string{"n0": "bu", "n1": "spare", "n2": "ru", "n3": "ru", "n4": "bu"},
		func(c *config.Config) { c.Nodes = 0 })
	check := h.Check(t.Context(), &ecsv1.CheckConfigurationRequest{Settings: []string{"members=n0,n2", "rus=1", "bus=1"}})
	if got := strings.Join(check.GetProblems(), " "); !strings.Contains(got, "n0 was started with --role bu, and cannot "+
		"have a readout unit") || !strings.Contains(got, "n2 was started with --role ru, and cannot have a builder unit") {
		t.Errorf("a configuration against the roles: %v", check)
	}
	h.mustCommand("load", "configure", "start")
	h.awaitBuilt(0)
	roles := map[string]string{"n0": "bu", "n1": "spare", "n2": "ru", "n3": "ru", "n4": "bu"}
	shown := map[string]string{}
	for _, c := range h.Status().GetRoot().GetChildren() {
		if c.GetKind() == "node" {
			shown[c.GetName()] = c.GetFacts()["role"]
		}
	}
	if !maps.Equal(shown, roles) {
		t.Errorf("the status shows %v, want %v", shown, roles)
	}
	h.mustCommand("stop")
	run := h.closedRun(1)
	good(t, run, ecsv1.Verdict_VERDICT_GOOD, "stopped")
	if !maps.Equal(run.GetRoles(), roles) {
		t.Errorf("the record has %v, want %v", run.GetRoles(), roles)
	}
	if got := run.GetNodes(); !slices.Equal(got, []string{"n2", "n3", "n0", "n4"}) {
		t.Errorf("nodes in the order of ranks: %v", got)
	}
	h.mustCommand("reset", "unload")
	for _, c := range []struct{ command, arguments, why string }{
		{"load", "settings=members=n0:bu,n2:ru,n3:ru", ""},
		{"move", "node=n2 to=n4", "n4 was started with --role bu, and cannot have a readout unit"},
		{"move", "node=n2 to=n1", ""},
	} {
		arguments := map[string]string{}
		for one := range strings.FieldsSeq(c.arguments) {
			name, value, _ := strings.Cut(one, "=")
			arguments[name] = value
		}
		_, err := h.Command(t.Context(), "alice", &ecsv1.CommandRequest{Command: c.command, Arguments: arguments})
		if (err == nil) != (c.why == "") || err != nil && !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s %s: %v", c.command, c.arguments, err)
		}
	}
}
