package manifests

import (
	"crypto/tls"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

var execStart = regexp.MustCompile(`(?m)^ExecStart=(/usr/bin/ringlet (.*))$`)

// TestUnits lets systemd read the units, with the binary of this tree in the place of the installed one, and wants to
// hear nothing.
func TestUnits(t *testing.T) {
	units, err := filepath.Glob(root + "/deploy/systemd/*.service")
	if err != nil || len(units) != 2 {
		t.Fatalf("units: %v, %v", units, err)
	}
	dir := t.TempDir()
	args := []string{"verify", "--man=no"}
	for _, unit := range units {
		text, err := os.ReadFile(unit)
		if err != nil {
			t.Fatal(err)
		}
		start := execStart.FindSubmatch(text)
		if start == nil {
			t.Errorf("%s starts no ringlet", unit)
			continue
		}
		checkArguments(t, unit, strings.Fields(string(start[2])))
		file := filepath.Join(dir, strings.Replace(filepath.Base(unit), "@", "@n0", 1))
		if err := os.WriteFile(file, []byte(strings.ReplaceAll(string(text), "/usr/bin/ringlet", program(t))),
			0o644); err != nil {
			t.Fatal(err)
		}
		args = append(args, file)
	}
	out, err := exec.Command("systemd-analyze", args...).CombinedOutput()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		t.Skip("SKIPPED, systemd-analyze is not installed: the units were not verified")
	case err != nil || len(out) > 0:
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}

// TestDefaultsOfUnits holds the arguments in /etc/default to the program.
func TestDefaultsOfUnits(t *testing.T) {
	quoted := regexp.MustCompile(`(?m)^RINGLET_(CONTROL|NODE)_ARGS="([^"]*)"$`)
	for _, file := range []string{"ringlet-control", "ringlet-node"} {
		text, err := os.ReadFile(root + "/deploy/deb/" + file + ".default")
		if err != nil {
			t.Fatal(err)
		}
		m := quoted.FindStringSubmatch(string(text))
		if m == nil {
			t.Errorf("%s sets no arguments", file)
			continue
		}
		checkArguments(t, file, append([]string{strings.ToLower(m[1])}, strings.Fields(m[2])...))
	}
}

type composeFile struct {
	Services map[string]struct {
		Command    any
		Entrypoint []string
		Profiles   []string
		Networks   map[string]struct {
			Address string `json:"ipv4_address"`
		}
	}
}

// knownAs makes keys as it is told, elsewhere, and holds that the control's certificate has the name by which browsers
// come to the page.
func knownAs(t *testing.T, name string, args []string) {
	t.Helper()
	dir := t.TempDir()
	args = slices.Clone(args)
	args[1] = dir
	if out, err := exec.Command(program(t), args...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "control.crt"), filepath.Join(dir, "control.key"))
	if err == nil {
		err = pair.Leaf.VerifyHostname(name)
	}
	if err != nil {
		t.Errorf("%v: %v", args, err)
	}
}

// TestCompose holds the compose file to the program and to its own addresses, and lets docker-compose read it where it
// is installed.
func TestCompose(t *testing.T) {
	const file = root + "/docker-compose.yaml"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var c composeFile
	if err := yaml.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	nodes := 0
	for name, s := range c.Services {
		if name == "ctl" {
			checkArguments(t, "compose: ctl", s.Entrypoint[1:])
			continue
		}
		var args []string
		list, ok := s.Command.([]any)
		if !ok {
			t.Errorf("%s has no list of arguments", name)
			continue
		}
		for _, a := range list {
			text, _ := a.(string)
			args = append(args, text)
		}
		checkArguments(t, "compose: "+name, args)
		if args[0] == "certs" {
			knownAs(t, "127.0.0.1", args)
			continue
		}
		for _, text := range args {
			flag, value, _ := strings.Cut(text, "=")
			for _, at := range []struct{ flag, network string }{{"--host", "control"}, {"--data-host", "data"}} {
				if flag == at.flag && s.Networks[at.network].Address != value {
					t.Errorf("%s: %s, and it is at %q in network %s", name, text, s.Networks[at.network].Address, at.network)
				}
			}
			if flag == "--join" && value != c.Services["control"].Networks["control"].Address+":7946" {
				t.Errorf("%s: %s is not where the control is", name, text)
			}
		}
		if args[0] == "node" {
			nodes++
		}
	}
	if nodes != 4 {
		t.Errorf("%d nodes", nodes)
	}
	out, err := exec.Command("docker-compose", "-f", file, "config", "--quiet").CombinedOutput()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		t.Log("NOT CHECKED against its format: docker-compose is not installed")
	case err != nil || len(out) > 0:
		t.Errorf("docker-compose config: %v\n%s", err, out)
	}
}
