package ringlet

import (
	"bytes"
	"path"
	"strings"
	"testing"
)

// budgets are how many lines of code each package has at most, without tests, comments and blank lines. Who needs more
// raises a number here, and says why in the same commit. A package that has become smaller gets a smaller budget.
var budgets = map[string]int{
	".":                        20,
	"barrier":                  1450,
	"builderunit":              2300,
	"builderunit/backlog":      750,
	"builderunit/reading":      290,
	"recording":                5090,
	"builderunit/sink":         2730,
	"builderunit/tap":          230,
	"checks/e2e":               20,
	"checks/manifests":         20,
	"checks/screens":           20,
	"checks/soak":              5200,
	"clients/frontend":         1620,
	"cmd/ringlet":              4410,
	"convert":                  250,
	"convert/arrays":           650,
	"convert/conversion":       660,
	"convert/input":            675,
	"convert/output":           715,
	"ecs/api":                  2240,
	"ecs/ctl":                  3090,
	"ecs/diagnosis":            1290,
	"ecs/figures":              700,
	"ecs/journal":              230,
	"ecs/lineserver":           235,
	"ecs/page":                 120,
	"ecs/partition":            5025,
	"ecs/partition/fault":      1155,
	"ecs/partition/merging":    120,
	"ecs/partition/nodes":      5850,
	"ecs/record":               910,
	"ecs/run":                  380,
	"event":                    2060,
	"event/drift":              610,
	"event/ejfat":              150,
	"event/eudaq":              135,
	"event/pattern":            610,
	"event/placing":            390,
	"event/selection":          660,
	"event/slowdata":           235,
	"filter":                   100,
	"filter/builtin":           130,
	"filter/decision":          1910,
	"filter/external":          810,
	"internal/address":         305,
	"internal/assembly/crc32c": 130,
	"internal/assembly/gcm":    560,
	"internal/cicheck":         90,
	"internal/connlimit":       300,
	"internal/counter":         230,
	"internal/crc32c":          80,
	"internal/decimal":         110,
	"internal/histogram":       100,
	"internal/hugepages":       30,
	"internal/invariants":      30,
	"internal/netns":           150,
	"internal/netyield":        80,
	"internal/nodename":        50,
	"internal/plural":          90,
	"internal/registry":        90,
	"internal/safeopen":        340,
	"internal/schedule":        50,
	"internal/secret":          90,
	"internal/standstill":      70,
	"internal/stopwatch":       110,
	"internal/timerslack":      40,
	"internal/uplot":           20,
	"lab/bench":                6480,
	"lab/bench/engine":         100,
	"lab/doctor":               930,
	"lab/gen":                  180,
	"lab/inspect":              1250,
	"lab/mem":                  1600,
	"lab/origin":               390,
	"lab/page":                 270,
	"lab/stages":               70,
	"lab/sweep":                2510,
	"lab/testbed":              1310,
	"lab/tool":                 100,
	"lab/topology":             1420,
	"lab/trial":                430,
	"memory":                   3230,
	"memory/gateway":           990,
	"node":                     5300,
	"node/certs":               1050,
	"node/cluster":             1130,
	"node/config":              3240,
	"node/fsm":                 900,
	"node/hostlimits":          280,
	"node/metrics":             510,
	"node/monitor":             90,
	"node/profile":             200,
	"node/sampling":            100,
	"node/sdnotify":            120,
	"node/spawn":               140,
	"node/watchdog":            200,
	"proto/ringlet/ecs/v1":     20,
	"proto/ringlet/node/v1":    20,
	"proto/ringlet/sample/v1":  20,
	"proto/ringlet/tagnet/v1":  20,
	"proto/ringlet/tap/v1":     20,
	"readoutunit":              2900,
	"source":                   4665,
	"source/ejfat":             560,
	"source/frames":            2200,
	"source/live":              1790,
	"source/shmring":           520,
	"shmem":                    3300,
	"shmem/ring":               930,
	"sim":                      490,
	"sim/builder":              920,
	"sim/component":            450,
	"sim/documents/figures":    500,
	"sim/documents/level1":     1660,
	"sim/documents/model":      760,
	"sim/documents/sci":        650,
	"sim/documents/tagfarm":    1790,
	"sim/lhcb":                 600,
	"sim/predict":              1690,
	"sim/study":                770,
	"tagnet":                   3340,
	"tagnet/core":              4685,
	"testkit/apitest":          1000,
	"testkit/apitest/fake":     130,
	"testkit/cases":            50,
	"testkit/compiled":         55,
	"testkit/golden":           40,
	"testkit/guarded":          40,
	"testkit/interpreted":      65,
	"testkit/readback":         210,
	"testkit/issuer":           30,
	"testkit/livetest":         190,
	"testkit/logged":           40,
	"testkit/mfp":              50,
	"testkit/must":             50,
	"testkit/origintest":       180,
	"testkit/patiently":        150,
	"testkit/ports":            50,
	"testkit/rootzip":          70,
	"testkit/transcript":       200,
	"transport":                1830,
	"transport/express":        330,
	"transport/gcm":            410,
	"transport/link":           2380,
	"transport/local":          920,
	"transport/quic":           2710,
	"transport/simnet":         740,
	"velo":                     510,
	"velo/content":             50,
	"velo/detectorfile":        50,
	"velo/display":             150,
	"velo/efficiency":          680,
	"velo/frontend":            920,
	"velo/vertex":              1440,
}

// spareLines is by how much a package may stay below its budget: more of it, and it would grow again unseen.
func spareLines(budget int) int { return 40 + budget/20 }

func TestPackagesKeepTheirBudgets(t *testing.T) {
	lines := map[string]int{}
	for _, file := range handWritten(t) {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for line := range bytes.Lines(read(t, file)) {
			if line = bytes.TrimSpace(line); len(line) > 0 && !bytes.HasPrefix(line, []byte("//")) {
				lines[path.Dir(file)]++
			}
		}
	}
	for dir, n := range lines {
		switch budget := budgets[dir]; {
		case budget == 0:
			t.Errorf("%s has no budget: give it one of about %d lines in budgets_test.go", dir, n)
		case n > budget:
			t.Errorf("%s has %d lines of code, and a budget of %d: make it smaller, or raise the budget in budgets_test.go "+
				"and say why in the commit", dir, n, budget)
		case n < budget-spareLines(budget):
			t.Errorf("%s has %d lines of code, far below its budget of %d: lower the budget", dir, n, budget)
		}
	}
	for dir := range budgets {
		if lines[dir] == 0 {
			t.Errorf("%s has a budget, and no code: take it from budgets_test.go", dir)
		}
	}
}
