package ringlet

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The rollout puts the package onto a host under a name that nobody can know beforehand, and leaves nothing of it
// there, installed or not.
func TestRolloutUsesNoPredictableName(t *testing.T) {
	for name, code := range map[string]string{"installed": "0", "refused": "1"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			tool := func(name, text string) {
				t.Helper()
				if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/usr/bin/env bash\n"+text), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			remote := filepath.Join(dir, "tmp") // of the host
			if err := os.Mkdir(remote, 0o700); err != nil {
				t.Fatal(err)
			}
			tool("ssh", `case "$2" in *dpkg*) TMPDIR=`+remote+` sh -c "$2" ;; *) cat >/dev/null ;; esac`)
			tool("dpkg", `cp "${@: -1}" `+dir+`/installed; echo "${@: -1}" >`+dir+`/called; exit `+code)
			tool("ringlet", `mkdir -p "$2"; for f in ca.crt gossip.key n0.crt n0.key control.crt control.key; do echo x >"$2/$f"
				done`)
			tool("ringlet.deb", "a package\n")
			inventory := filepath.Join(dir, "inventory")
			if err := os.WriteFile(inventory, []byte("control root@host 10.0.0.1\nn0 root@host 10.0.0.1\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command("deploy/rollout.sh", inventory, filepath.Join(dir, "keys"))
			cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "SSH=ssh", "RINGLET="+dir+"/ringlet",
				"DEB="+dir+"/ringlet.deb")
			if out, err := cmd.CombinedOutput(); (err == nil) != (code == "0") {
				t.Fatalf("%v: %s", err, out)
			}
			called, err := os.ReadFile(filepath.Join(dir, "called"))
			if err != nil {
				t.Fatal(err)
			}
			at := strings.TrimSpace(string(called))
			if filepath.Dir(at) != remote || filepath.Base(at) == "ringlet.deb" {
				t.Errorf("the package was put to %s", at)
			}
			if got, err := os.ReadFile(filepath.Join(dir, "installed")); err != nil ||
				!strings.HasSuffix(string(got), "a package\n") {
				t.Errorf("installed %q, %v", got, err)
			}
			if remaining, err := os.ReadDir(remote); err != nil || len(remaining) > 0 {
				t.Errorf("left behind: %v, %v", remaining, err)
			}
		})
	}
}
