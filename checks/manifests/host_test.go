package manifests

import (
	"crypto/tls"
	"errors"
	"maps"
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

// A composeService is what a compose file says of one container.
type composeService struct {
	Command    []string
	Entrypoint []string
	Extends    struct{ File, Service string }
	Volumes    []string
	Networks   map[string]struct {
		Address string `json:"ipv4_address"`
	}
}

type composeFile struct {
	Services map[string]composeService
	Volumes  map[string]any
}

// composes are the clusters of compose, each by the files of its command line: a later file changes services of those
// before.
var composes = map[string][]string{
	"folded": {"docker-compose.yaml"},
	"roles":  {"docker-compose.yaml", "docker-compose.roles.yaml"},
}

// readCompose merges files as docker-compose does, so far as these use it: a command replaces the one before, networks
// are added by name, and what is not said again stays.
func readCompose(t *testing.T, files []string) composeFile {
	t.Helper()
	all := composeFile{Services: map[string]composeService{}, Volumes: map[string]any{}}
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		var c composeFile
		if err := yaml.Unmarshal(text, &c); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		maps.Copy(all.Volumes, c.Volumes)
		for name, s := range c.Services {
			before := all.Services[name]
			if s.Extends.Service != "" {
				if s.Extends.File != files[0] {
					t.Errorf("%s: %s extends a service of %q, not of %s", file, name, s.Extends.File, files[0])
				}
				before = all.Services[s.Extends.Service]
			}
			merged := before
			merged.Networks = maps.Clone(before.Networks)
			if merged.Networks == nil {
				merged.Networks = s.Networks
			}
			maps.Copy(merged.Networks, s.Networks)
			if s.Command != nil {
				merged.Command = s.Command
			}
			if s.Entrypoint != nil {
				merged.Entrypoint = s.Entrypoint
			}
			merged.Volumes = append(slices.Clone(before.Volumes), s.Volumes...)
			all.Services[name] = merged
		}
	}
	return all
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

// TestCompose holds the compose files to the program and to their own addresses, and lets docker-compose read them
// where it is installed.
func TestCompose(t *testing.T) {
	wanted := map[string]map[string]int{"folded": {"both": 4}, "roles": {"ru": 2, "bu": 2, "spare": 1}}
	for cluster, files := range composes {
		c := readCompose(t, files)
		roles := map[string]int{}
		for name, s := range c.Services {
			if name == "ctl" {
				checkArguments(t, "compose: ctl", s.Entrypoint[1:])
				continue
			}
			checkArguments(t, "compose: "+name, s.Command)
			switch {
			case len(s.Command) == 0:
			case s.Command[0] == "certs":
				knownAs(t, "127.0.0.1", s.Command)
			default:
				roles[composeAddresses(t, c, name)]++
			}
		}
		delete(roles, "") // the control
		if !maps.Equal(roles, wanted[cluster]) {
			t.Errorf("%s: nodes %v, want %v", cluster, roles, wanted[cluster])
		}
		composeFormat(t, files)
	}
}

// composeAddresses holds the arguments of a process to its container's addresses, and to the keys that there are. It
// returns the role of a node.
func composeAddresses(t *testing.T, c composeFile, name string) string {
	t.Helper()
	s := c.Services[name]
	role := ""
	if s.Command[0] == "node" {
		role = "both"
	}
	for _, text := range s.Command {
		flag, value, _ := strings.Cut(text, "=")
		for _, at := range []struct{ flag, network string }{{"--host", "control"}, {"--data-host", "data"}} {
			if flag == at.flag && s.Networks[at.network].Address != value {
				t.Errorf("%s: %s, and it is at %q in network %s", name, text, s.Networks[at.network].Address, at.network)
			}
		}
		switch {
		case flag == "--role":
			role = value
		case flag == "--name" && (value != name || !slices.Contains(c.Services["keys"].Command, value)):
			t.Errorf("%s: %s, of which nobody makes keys, or which is another's", name, text)
		case flag == "--join" && value != c.Services["control"].Networks["control"].Address+":7946":
			t.Errorf("%s: %s is not where the control is", name, text)
		}
	}
	return role
}

func composeFormat(t *testing.T, files []string) {
	t.Helper()
	var args []string
	for _, file := range files {
		args = append(args, "-f", filepath.Join(root, file))
	}
	out, err := exec.Command("docker-compose", append(args, "config", "--quiet")...).CombinedOutput()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		t.Logf("%v NOT CHECKED against the format: docker-compose is not installed", files)
	case err != nil || len(out) > 0:
		t.Errorf("docker-compose config: %v\n%s", err, out)
	}
}
