package e2e

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// TestKubernetesRoles applies the overlay of readout hosts and builder hosts apart, runs it, and kills the pod of a
// builder unit in a recorded run.
func TestKubernetesRoles(t *testing.T) {
	k := openKubernetes(t)
	if k.lab() == "" {
		t.Skip("SKIPPED: it labels hosts, and does so to the lab's only")
	}
	var list struct {
		Items []struct{ Metadata struct{ Name string } }
	}
	if err := json.Unmarshal([]byte(k.must("get", "nodes", "-o", "json")), &list); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.must("label", "nodes", "--all", "ringlet/role-") })
	roleOf := map[string]string{}
	for i, host := range list.Items {
		roleOf[host.Metadata.Name] = []string{"ru", "bu"}[i%2]
		k.must("label", "nodes", host.Metadata.Name, "--overwrite", "ringlet/role="+roleOf[host.Metadata.Name])
	}
	var f figures
	f.took("two readout nodes, two builder nodes and the control Ready, after apply",
		k.deploy("checks/e2e/testdata/roles", "ru-0", "ru-1", "bu-0", "bu-1"))
	for name, p := range k.pods() {
		if role, _, is := strings.Cut(name, "-"); is && role != "ringlet" && roleOf[p.Spec.NodeName] != role {
			t.Errorf("%s is on %s, a host for %s", name, p.Spec.NodeName, roleOf[p.Spec.NodeName])
		}
	}
	c := k.crew()
	c.must(t, "take-control")
	n := c.begin(t, recording...)
	c.must(t, "wait", "3s")
	k.kill("bu-1")
	eventually(t, 20*time.Second, "bu-1 is missed", func() bool { return len(c.status(t).missing()) > 0 })
	f.took("a builder's pod killed: back in the run", eventually(t, time.Minute, "bu-1 is back", func() bool {
		return len(c.status(t).missing()) == 0
	}))
	c.must(t, "wait", "2s", "stop")
	r := c.record(t, n)
	if r.Verdict != "VERDICT_DEGRADED" || r.End != "stopped" {
		t.Errorf("run %d: %s, %s: %+v", n, r.Verdict, r.End, r.Cause)
	}
	r.balanced(t)
	r.allRecorded(t)
	r.salvaged(t, k.places("bu-0", "bu-1")...)
	f.print()
}
