package node

import (
	"strings"
	"testing"

	"ringlet/node/config"
	nodev1 "ringlet/proto/ringlet/node/v1"
)

// TestAllowed holds configurations against rules: what reaches into the host is refused unless a rule allows it.
func TestAllowed(t *testing.T) {
	for _, c := range []struct {
		rules, input, output string
		refused              string // what the refusal names; empty: it is allowed
	}{
		{input: "tcp:127.0.0.1:0,udp:127.0.0.1:0"},
		{input: "exec:id", refused: "--allow exec"},
		{input: "tcp:127.0.0.1:0,exec:id", refused: `"exec:id"`},
		{input: "unix:/run/daq/a", refused: "--allow unix"},
		{input: "shm:cam", refused: "--allow shm"},
		{rules: "exec,unix,shm", input: "exec:id,unix:/run/daq/a,shm:cam"},
		{rules: "exec", input: "unix:/run/daq/a", refused: "--allow unix"},
		{rules: "exec:/usr/lib/daq", input: "exec:/usr/lib/daq/read --plane 3 a=b"},
		{rules: "exec:/usr/lib/daq/", input: "exec:/usr/lib/daqs/read", refused: "--allow exec"},
		{rules: "exec:/usr/lib/daq", input: "exec:/usr/lib/daq/../../bin/id", refused: "--allow exec"},
		{rules: "exec:/usr/lib/daq", input: "exec:/usr/lib/daq/read;id", refused: "--allow exec"},
		{rules: "exec:/usr/lib/daq", input: "exec:/usr/lib/daq/read $(id)", refused: "--allow exec"},
		{rules: "exec:/usr/lib/daq", input: "exec:/usr/lib/daq/read\nid", refused: "--allow exec"},
		{rules: "exec:/usr/lib/daq", input: "exec:A=b id", refused: "--allow exec"},
		{rules: "unix:/run/daq", input: "unix:/run/daq/a"},
		{rules: "unix:/run/daq", input: "unix:/run/daq/../a", refused: "--allow unix"},
		{rules: "shm:cam", input: "shm:cam?size=1MiB"},
		{rules: "shm:cam", input: "shm:camera", refused: "--allow shm"},
		{rules: "shm:/run/daq/", input: "shm:/run/daq/calo"},
		{input: "tcp:127.0.0.1:0?secret=/keys/frontends"},
		{input: "tcp:127.0.0.1:0?secret=/keys/../etc/password", refused: "--allow secret:/etc"},
		{rules: "secret:/etc/daq", input: "tcp:127.0.0.1:0?secret=/keys/frontends", refused: "--allow secret:/keys"},
		{rules: "secret:/etc/daq", input: "tcp:127.0.0.1:0?secret=/etc/daq/frontends"},
		{output: "/home/daq/out/"},
		{output: "/home/daq/x.mdf"},
		{output: "/etc/out/", refused: "--allow output:/etc/out"},
		{output: "/home/daq/../x.mdf", refused: "--allow output:/home"},
		{output: "buffer:a,mep:/etc/out/", refused: "--allow output:/etc/out"},
		{output: "buffer:a"},
		{rules: "output:/data", output: "/home/daq/out/", refused: "--allow output:/home/daq/out"},
		{rules: "output:/data", output: "/data/"},
		{rules: "output", output: "/etc/out/"},
	} {
		var rules []string
		if c.rules != "" {
			rules = strings.Split(c.rules, ",")
		}
		a, err := ParseAllowlist(rules, "/home/daq", "/keys")
		if err != nil {
			t.Errorf("%s: %v", c.rules, err)
			continue
		}
		cfg := config.Completed{Config: config.Default()}
		cfg.Nodes, cfg.Input, cfg.Output = 1, c.input, c.output
		if err := cfg.Complete(); err != nil {
			t.Errorf("%q %q: %v", c.input, c.output, err)
			continue
		}
		err = a.Check(&cfg, &nodev1.Member{Readout: true, Builder: true})
		if (err == nil) != (c.refused == "") || err != nil && !strings.Contains(err.Error(), c.refused) {
			t.Errorf("%q, input %q, output %q: %v, want %q", c.rules, c.input, c.output, err, c.refused)
		}
		if err := a.Check(&cfg, &nodev1.Member{}); err != nil {
			t.Errorf("a node without units: %v", err)
		}
		if err := (*Allowlist)(nil).Check(&cfg, &nodev1.Member{Readout: true, Builder: true}); err != nil {
			t.Errorf("a node of one user: %v", err)
		}
	}
}

// TestAllowedIsOfTheOwnUnits: a node does not answer for the sources of others.
func TestAllowedIsOfTheOwnUnits(t *testing.T) {
	cfg := config.Completed{Config: config.Default()}
	cfg.Nodes, cfg.Input = 2, "tcp:127.0.0.1:0,exec:id"
	if err := cfg.Complete(); err != nil {
		t.Fatal(err)
	}
	a, err := ParseAllowlist(nil, "/", "")
	if err != nil {
		t.Fatal(err)
	}
	for unit, refused := range []bool{false, true} {
		err := a.Check(&cfg, &nodev1.Member{Readout: true, RuIndex: uint32(unit)})
		if (err != nil) != refused {
			t.Errorf("readout unit %d: %v", unit, err)
		}
	}
}

// TestAllowedSecretOfDecisions: the node with the decision unit answers for the secret of its outlet.
func TestAllowedSecretOfDecisions(t *testing.T) {
	cfg := config.Completed{Config: config.Default()}
	cfg.Nodes, cfg.DecisionNode, cfg.DecisionOutput = 1, "n0", "buffer:a,tcp:127.0.0.1:0?secret=/etc/password"
	if err := cfg.Complete(); err != nil {
		t.Fatal(err)
	}
	a, err := ParseAllowlist(nil, "/", "/keys")
	if err != nil {
		t.Fatal(err)
	}
	for name, refused := range map[string]bool{"n0": true, "n1": false} {
		if err := a.Check(&cfg, &nodev1.Member{Name: name}); (err != nil) != refused {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAllowedIsRead: what cannot be a rule is refused, and the root is no place for files by itself.
func TestAllowedIsRead(t *testing.T) {
	for _, rule := range []string{"", "tcp", "exce", "exec:", "exec:bin", "output:out", "unix:a"} {
		if _, err := ParseAllowlist([]string{rule}, "/", ""); err == nil {
			t.Errorf("%q is taken", rule)
		}
	}
	cfg := config.Completed{Config: config.Default()}
	cfg.Nodes, cfg.Output = 1, "/tmp/out/"
	if err := cfg.Complete(); err != nil {
		t.Fatal(err)
	}
	a, err := ParseAllowlist(nil, "/", "")
	if err == nil {
		err = a.Check(&cfg, &nodev1.Member{Builder: true})
	}
	if err == nil || !strings.Contains(err.Error(), "--allow output:/tmp/out") {
		t.Error(err)
	}
}
