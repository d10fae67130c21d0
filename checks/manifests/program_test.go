package manifests

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// program is the binary that everything here starts.
func program(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs(root + "/bin/ringlet")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Skipf("SKIPPED, there is no bin/ringlet: make build (%v)", err)
	}
	return path
}

var flagOfHelp = regexp.MustCompile(`(?m)^\s+(?:-\w, )?--([a-z][a-z0-9.-]*)`)

// flags are those that a command of the program has, by its own help.
func flags(t *testing.T, command string) []string {
	t.Helper()
	help, err := exec.Command(program(t), command, "--help").CombinedOutput()
	if err != nil {
		t.Fatalf("ringlet %s --help: %v\n%s", command, err, help)
	}
	var out []string
	for _, m := range flagOfHelp.FindAllSubmatch(help, -1) {
		out = append(out, string(m[1]))
	}
	return out
}

// checkArguments holds the flags of a command line to those of the program.
func checkArguments(t *testing.T, where string, args []string) {
	t.Helper()
	if len(args) == 0 {
		t.Errorf("%s starts no command", where)
		return
	}
	known := flags(t, args[0])
	for _, arg := range args[1:] {
		if name, flag := strings.CutPrefix(arg, "--"); flag {
			if name, _, _ = strings.Cut(name, "="); !slices.Contains(known, name) {
				t.Errorf("%s: ringlet %s has no flag --%s", where, args[0], name)
			}
		}
	}
}

func TestFlagsOfPodsExist(t *testing.T) {
	for _, place := range places(t) {
		for _, s := range selectType[*appsv1.StatefulSet](build(t, place)) {
			checkArguments(t, place+": "+s.Name, s.Spec.Template.Spec.Containers[0].Args)
		}
	}
}

// TestRolesFitTheConfiguration holds that there are as many pods of each role as the configuration has units, and that
// pods of one role are on hosts of that role.
func TestRolesFitTheConfiguration(t *testing.T) {
	apart := false
	for _, place := range places(t) {
		pods := map[string]int32{}
		for _, s := range nodesOf(t, place) {
			for _, arg := range s.Spec.Template.Spec.Containers[0].Args {
				if role, there := strings.CutPrefix(arg, "--role="); there {
					pods[role] += *s.Spec.Replicas
					if s.Spec.Template.Spec.NodeSelector["ringlet/role"] != role {
						t.Errorf("%s: %s has role %s on hosts %v", place, s.Name, role, s.Spec.Template.Spec.NodeSelector)
					}
				}
			}
		}
		if len(pods) == 0 {
			continue
		}
		apart = true
		for _, m := range selectType[*corev1.ConfigMap](build(t, place)) {
			var units struct{ RUs, BUs int32 }
			if err := yaml.Unmarshal([]byte(m.Data["ringlet.yaml"]), &units); err != nil || units.RUs != pods["ru"] ||
				units.BUs != pods["bu"] {
				t.Errorf("%s: pods by role %v, and the configuration has %+v, %v", place, pods, units, err)
			}
		}
	}
	if !apart {
		t.Error("no overlay has nodes with roles: this test holds nothing")
	}
}

// TestConfigurationsAreTaken asks the program about every configuration, of as many nodes as there are pods.
func TestConfigurationsAreTaken(t *testing.T) {
	for _, place := range places(t) {
		objects := build(t, place)
		var pods int32
		for _, s := range nodesOf(t, place) {
			pods += *s.Spec.Replicas
		}
		for _, m := range selectType[*corev1.ConfigMap](objects) {
			for name, text := range m.Data {
				file := filepath.Join(t.TempDir(), name)
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				out, err := exec.Command(program(t), "config", "check", file).CombinedOutput()
				if err != nil {
					t.Errorf("%s: %s: %s", place, m.Name, out)
				}
				if !bytes.Contains(out, fmt.Appendf(nil, " %d nodes", pods)) {
					t.Errorf("%s: there are %d pods, and the program says: %s", place, pods, out)
				}
			}
		}
	}
}
