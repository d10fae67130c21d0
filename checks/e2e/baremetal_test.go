package e2e

import (
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const inventory = `# name  ssh              address
control root@10.88.0.1 10.88.0.1
n0      root@10.88.0.1 10.88.0.1
n1      root@10.88.0.1 10.88.0.1
n2      root@10.88.0.2 10.88.0.2
n3      root@10.88.0.2 10.88.0.2
`

const hostsConfiguration = `nodes: 4
rus: 2
bus: 2
duration: 0s
rate: 20000
packing: 500
builder-loss: at-least 1 of 2
control-loss: 1m
`

// units of a host, control included.
func units(i int) []string {
	if i == 1 {
		return []string{"ringlet-control.service", "ringlet-node@n0.service", "ringlet-node@n1.service"}
	}
	return []string{"ringlet-node@n2.service", "ringlet-node@n3.service"}
}

// active waits until all units of a host are started, which they say themselves.
func (h *hosts) active(i int) {
	h.t.Helper()
	eventually(h.t, time.Minute, fmt.Sprintf("the units of host %d are active", i), func() bool {
		out, err := h.on(i, "systemctl is-active "+strings.Join(units(i), " "))
		return err == nil && strings.Count(out, "active\n") == len(units(i))
	})
}

func TestBareMetal(t *testing.T) {
	h := openHosts(t)
	dir := t.TempDir()
	keys := filepath.Join(dir, "keys")
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	var f figures
	began := time.Now()
	out, err := output([]string{"SSH=" + strings.Join(h.ssh, " ")}, nil, repository(t, "deploy/rollout.sh"),
		write("inventory", inventory), keys, write("ringlet.yaml", hostsConfiguration))
	if err != nil {
		t.Fatal(err)
	}
	t.Log(out)
	pair, err := tls.LoadX509KeyPair(filepath.Join(keys, "control.crt"), filepath.Join(keys, "control.key"))
	if err != nil {
		t.Fatal(err)
	}
	if err := pair.Leaf.VerifyHostname(hostAddress(1)); err != nil {
		t.Errorf("no browser would trust the page: %v", err)
	}
	h.active(1)
	h.active(2)
	f.took("two hosts: package, keys and arguments given, control and four nodes started", time.Since(began))
	t.Cleanup(func() {
		if t.Failed() {
			for i := 1; i <= 2; i++ {
				journal, err := h.on(i, "journalctl --no-pager -n 60 -u 'ringlet*'")
				t.Logf("journal of host %d: %v\n%s", i, err, journal)
			}
		}
	})
	t.Log(h.mustOn(2, "systemctl status --no-pager 'ringlet-node@n2' | head -12; systemd-analyze security --no-pager "+
		"ringlet-node@n2.service ringlet-control.service | tail -1; dpkg -V ringlet"))

	c := crew{inSpace(switchSpace, repository(t, "bin/ringlet"), "ctl", "--control", hostAddress(1)+":7947", "--certs",
		keys, "--user", "crew")}
	c.must(t, "take-control")
	step := func(name string, do func(*testing.T)) {
		if !t.Failed() {
			t.Run(name, func(t *testing.T) { h.t = t; do(t) })
			h.t = t
		}
	}
	step("a run", func(t *testing.T) {
		n := c.begin(t, "rate=0")
		c.must(t, "wait", "8s", "stop")
		r := c.record(t, n)
		r.good(t)
		f.add("goodput, 2 readout and 2 builder units on two hosts", "%.3f Gbit/s", r.GoodputGbps)
	})
	step("a recorded run", func(t *testing.T) {
		n := c.begin(t, recording...)
		c.must(t, "wait", "3s", "stop")
		r := c.record(t, n)
		r.good(t)
		r.recorded(t, h.place(2)) // both builder units are there; those of the other host only send
		if out := h.mustOn(2, "find "+outputs+" -perm /077"); out != "" {
			t.Errorf("others than the user can read %s", out)
		}
	})
	step("a builder unit is killed while it records", func(t *testing.T) {
		n := c.begin(t, recording...)
		c.must(t, "wait", "2s")
		h.mustOn(2, "systemctl kill --signal=KILL ringlet-node@n3.service")
		c.must(t, "wait", "3s")
		if s := c.status(t); s.State != "Running" || !s.Degraded {
			t.Errorf("the partition is %+v", s)
		}
		c.must(t, "stop")
		r := c.record(t, n)
		r.balanced(t) // n2 writes to the same directory, and reads what n3 has left
		if r.Verdict != "VERDICT_DEGRADED" || r.Cause.Component != "n3" {
			t.Errorf("run %d: %s, cause %+v", n, r.Verdict, r.Cause)
		}
		h.active(2)
		r.salvaged(t, h.place(2))
		whole(t, c)
	})
	step("the control is killed in a run", func(t *testing.T) {
		n := c.begin(t)
		c.must(t, "wait", "2s")
		began := time.Now()
		h.mustOn(1, "systemctl kill --signal=KILL ringlet-control.service")
		eventually(t, time.Minute, "the control has found its run again",
			func() bool { return c.status(t).State == "Running" })
		f.took("control killed: started again by systemd, its run found, Running", time.Since(began))
		c.must(t, "take-control")
		c.must(t, "wait", "2s", "stop")
		c.record(t, n).good(t)
	})
	step("a node that hangs is ended by the watchdog", func(t *testing.T) {
		pid := h.mustOn(2, "systemctl show --property MainPID --value ringlet-node@n3.service")
		began := time.Now()
		h.mustOn(2, "kill -STOP "+pid)
		eventually(t, time.Minute, "n3 is another process", func() bool {
			now := h.mustOn(2, "systemctl show --property MainPID --value ringlet-node@n3.service")
			return now != pid && now != "0"
		})
		h.active(2)
		f.took("a node that hangs: ended by the watchdog (20 s), started again, in the cluster", time.Since(began))
		whole(t, c)
	})
	step("a unit is stopped in a run", func(t *testing.T) {
		n := c.begin(t)
		c.must(t, "wait", "2s")
		began := time.Now()
		h.mustOn(2, "systemctl stop ringlet-node@n3.service") // a builder unit: the policy bears it
		f.took("a builder unit's node stopped by systemd in a run: let go", time.Since(began))
		c.must(t, "wait", "2s")
		if s := c.status(t); s.State != "Running" || !s.Degraded {
			t.Errorf("the partition is %+v", s)
		}
		c.must(t, "stop")
		r := c.record(t, n)
		r.balanced(t)
		if r.Verdict != "VERDICT_DEGRADED" || r.Cause.Component != "n3" {
			t.Errorf("run %d: %s, cause %+v", n, r.Verdict, r.Cause)
		}
		h.mustOn(2, "systemctl start ringlet-node@n3.service")
		whole(t, c)
	})
	step("the package is removed", func(t *testing.T) {
		files := "cd /var/lib/ringlet && find . -type f -exec sha256sum {} + | sort"
		before := h.mustOn(2, files)
		h.mustOn(2, "dpkg --purge ringlet >/dev/null 2>&1")
		if after := h.mustOn(2, files); after != before || !strings.Contains(before, "/run.json") {
			t.Errorf("recorded before the package was removed:\n%s\nand after:\n%s", before, after)
		}
		if out, _ := h.on(2,
			"pgrep -c ringlet; ls /usr/bin/ringlet /etc/default/ringlet-node 2>/dev/null"); strings.TrimSpace(out) != "0" {
			t.Errorf("of the package is left: %s", out)
		}
		h.mustOn(2, "test -s /etc/ringlet/certs/n2.key") // keys are the host's
	})
	f.print()
}
