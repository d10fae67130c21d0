package e2e

import (
	"encoding/json"
	"testing"
)

// The overlay bare-nic: nodes on their hosts' network. testdata/bare-nic says what the lab has less of.
func TestKubernetesBareNIC(t *testing.T) {
	k := openKubernetes(t)
	if k.lab() == "" {
		t.Skip("SKIPPED: it labels hosts, and does so to the lab's only")
	}
	k.must("label", "nodes", "--all", "--overwrite", "ringlet/node=true")
	t.Cleanup(func() { k.must("label", "nodes", "--all", "ringlet/node-") })
	var f figures
	f.took("three nodes on their hosts' network and the control Ready, after apply",
		k.deploy("checks/e2e/testdata/bare-nic", names(3)...))

	var list struct {
		Items []struct {
			Metadata struct{ Name string }
			Status   struct{ HostIP, PodIP, QOSClass string }
		}
	}
	out := k.must("-n", "ringlet", "get", "pods", "-l", "app.kubernetes.io/component=node", "-o", "json")
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		t.Fatal(err)
	}
	hosts := map[string]bool{}
	for _, p := range list.Items {
		hosts[p.Status.HostIP] = true
		if p.Status.PodIP != p.Status.HostIP || p.Status.QOSClass != "Guaranteed" {
			t.Errorf("%s is at %s of the host %s, in the class %s", p.Metadata.Name, p.Status.PodIP, p.Status.HostIP,
				p.Status.QOSClass)
		}
	}
	if len(hosts) != 3 {
		t.Errorf("three nodes are on %v", hosts)
	}
	c := k.crew()
	c.must(t, "take-control")
	n := c.begin(t, "rate=0")
	c.must(t, "wait", "5s", "stop")
	r := c.record(t, n)
	r.good(t)
	goodput := r.GoodputGbps
	n = c.begin(t, append([]string{"rate=20000"}, recording...)...)
	c.must(t, "wait", "3s", "stop")
	r = c.record(t, n)
	r.good(t)
	r.recorded(t, k.places("n-0", "n-1", "n-2")...)
	k.page(t)
	f.add("goodput between three hosts on their own network", "%.3f Gbit/s", goodput)
	f.print()
}
