package manifests

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// outputs is where nodes have room for what they record, on each platform: docs/deploying.md.
const outputs = "/var/lib/ringlet"

// user of the image, of which what is mounted has to be.
const user = 65532

// hasNodes says whether the pods of a set are nodes.
func hasNodes(s *appsv1.StatefulSet) bool {
	return s.Spec.Template.Spec.Containers[0].Args[0] == "node"
}

// nodesOf returns the sets of nodes of a place, one at least.
func nodesOf(t *testing.T, place string) []*appsv1.StatefulSet {
	t.Helper()
	sets := slices.DeleteFunc(selectType[*appsv1.StatefulSet](build(t, place)),
		func(s *appsv1.StatefulSet) bool { return !hasNodes(s) })
	if len(sets) == 0 {
		t.Fatalf("%s has no nodes", place)
	}
	return sets
}

// TestNodesHaveSpaceForOutputs holds that each pod of a node can write where the documents say, and that what it writes
// is kept as long as the place can keep it.
func TestNodesHaveSpaceForOutputs(t *testing.T) {
	for _, place := range append(places(t), root+"/checks/e2e/testdata/bare-nic") {
		for _, s := range nodesOf(t, place) {
			hasSpace(t, place+": "+s.Name, s)
		}
	}
}

func hasSpace(t *testing.T, where string, s *appsv1.StatefulSet) {
	t.Helper()
	c := s.Spec.Template.Spec.Containers[0]
	at := slices.IndexFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == outputs })
	if at < 0 {
		t.Errorf("%s: nothing is mounted at %s", where, outputs)
		return
	}
	mount := c.VolumeMounts[at]
	if mount.ReadOnly || mount.SubPath != "" || mount.SubPathExpr != "" {
		t.Errorf("%s: %s is mounted as %+v", where, outputs, mount)
	}
	sec := s.Spec.Template.Spec.SecurityContext
	if sec == nil || sec.RunAsUser == nil || *sec.RunAsUser != user || sec.FSGroup == nil || *sec.FSGroup != user {
		t.Errorf("%s: the volume and the process are not of user %d: %+v", where, user, sec)
	}
	keeps(t, where, s, mount.Name)
}

// keeps looks at the volume itself. A claim has a size and outlives the pods; a directory of the host must be there
// with its owner, or the kubelet makes one that nobody but root can write; and what has a limit is emptied when it is
// reached.
func keeps(t *testing.T, place string, s *appsv1.StatefulSet, name string) {
	t.Helper()
	for _, claim := range s.Spec.VolumeClaimTemplates {
		if claim.Name != name {
			continue
		}
		policy := s.Spec.PersistentVolumeClaimRetentionPolicy
		if policy == nil || policy.WhenDeleted != appsv1.RetainPersistentVolumeClaimRetentionPolicyType ||
			policy.WhenScaled != appsv1.RetainPersistentVolumeClaimRetentionPolicyType {
			t.Errorf("%s: what nodes have recorded goes with them: %+v", place, policy)
		}
		if claim.Spec.Resources.Requests.Storage().IsZero() {
			t.Errorf("%s: the claim %s asks for no room", place, name)
		}
		return
	}
	for _, v := range s.Spec.Template.Spec.Volumes {
		switch {
		case v.Name != name:
		case v.HostPath != nil:
			if v.HostPath.Type == nil || *v.HostPath.Type != corev1.HostPathDirectory {
				t.Errorf("%s: the kubelet would make %s, for root alone", place, v.HostPath.Path)
			}
			return
		case v.EmptyDir != nil:
			if v.EmptyDir.Medium != corev1.StorageMediumDefault || v.EmptyDir.SizeLimit != nil {
				t.Errorf("%s: what is recorded lies in memory, or goes when there is much of it: %+v", place, v.EmptyDir)
			}
			return
		}
	}
	t.Errorf("%s: %s is mounted from a volume that keeps nothing", place, name)
}

// TestSpaceForOutputsBites holds that the test above sees what it is for.
func TestSpaceForOutputsBites(t *testing.T) {
	claims := nodesOf(t, root+"/k8s/base")[0].Spec.VolumeClaimTemplates
	if len(claims) != 1 || claims[0].Spec.AccessModes[0] != corev1.ReadWriteOnce {
		t.Errorf("a node of the base has the claims %+v", claims)
	}
	for _, place := range []string{"test-cluster", "bare-nic"} {
		if s := nodesOf(t, overlays+"/"+place)[0]; len(s.Spec.VolumeClaimTemplates) > 0 {
			t.Errorf("%s has claims besides: %v", place, names(s.Spec.VolumeClaimTemplates))
		}
	}
}

// names of claims.
func names(claims []corev1.PersistentVolumeClaim) (out []string) {
	for _, c := range claims {
		out = append(out, c.Name)
	}
	return out
}

// TestUnitsHaveSpaceForOutputs holds that a unit whose system is read-only can write to the state directory, and that
// this stays when the unit ends.
func TestUnitsHaveSpaceForOutputs(t *testing.T) {
	for _, unit := range []string{"ringlet-node@.service", "ringlet-control.service"} {
		text, err := os.ReadFile(root + "/deploy/systemd/" + unit)
		if err != nil {
			t.Fatal(err)
		}
		directory := "StateDirectory=" + filepath.Base(outputs)
		for _, line := range []string{directory, "StateDirectoryMode=0700", "User=ringlet", "UMask=0077"} {
			if !regexp.MustCompile("(?m)^" + regexp.QuoteMeta(line) + "$").Match(text) {
				t.Errorf("%s has no line %s", unit, line)
			}
		}
		if regexp.MustCompile(`(?m)^(RuntimeDirectory|DynamicUser|TemporaryFileSystem|ReadOnlyPaths)=`).Match(text) {
			t.Errorf("%s has directories that go with it, or that it cannot write", unit)
		}
	}
}

// TestComposeHasSpaceForOutputs holds that each node has the volume of the outputs, and that the image has the
// directory for it, with the owner that a new volume takes from there.
func TestComposeHasSpaceForOutputs(t *testing.T) {
	for _, files := range composes {
		c := readCompose(t, files)
		for name, s := range c.Services {
			// certs comes first, and makes it
			writes := len(s.Command) > 0 && (s.Command[0] == "node" || s.Command[0] == "certs")
			if has := slices.Contains(s.Volumes, "outputs:"+outputs); has != writes {
				t.Errorf("%v: %s: a volume of outputs at %s: %v, want %v", files, name, outputs, has, writes)
			}
		}
		if _, there := c.Volumes["outputs"]; !there {
			t.Error("the volume of the outputs has no name: it would go with its container")
		}
	}
	dockerfile, err := os.ReadFile(root + "/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(dockerfile), "COPY --chown=65532:65532 deploy/image /") {
		t.Error("the image does not give its directories to its user")
	}
	if _, err := os.Stat(root + "/deploy/image" + outputs); err != nil {
		t.Errorf("the image has no directory for a volume to be mounted at: %v", err)
	}
}

// TestPackageKeepsWhatWasTaken runs what the package runs when it goes, with nothing at hand that could remove a file.
func TestPackageKeepsWhatWasTaken(t *testing.T) {
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skipf("SKIPPED: %v", err)
	}
	for _, script := range []string{"prerm", "postrm"} {
		for _, why := range []string{"remove", "purge", "upgrade", "abort-install", "disappear"} {
			dir := t.TempDir()
			called := filepath.Join(dir, "called")
			tool := "#!" + shell + "\necho \"$@\" >>" + called + "\n"
			if err := os.WriteFile(filepath.Join(dir, "systemctl"), []byte(tool), 0o755); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(shell, root+"/deploy/deb/"+script, why)
			// No rm, no find, no userdel: whatever is not built in fails, and the script with it.
			cmd.Env = []string{"PATH=" + dir}
			if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
				t.Errorf("%s %s: %v: %s", script, why, err, out)
			}
			said, _ := os.ReadFile(called)
			if strings.Contains(string(said), "clean") {
				t.Errorf("%s %s: systemctl %s", script, why, said) // clean --what=state removes the state directory
			}
		}
	}
	for _, script := range []string{"prerm", "postrm", "postinst"} {
		text, err := os.ReadFile(root + "/deploy/deb/" + script)
		if err != nil {
			t.Fatal(err)
		}
		if m := regexp.MustCompile(`\b(rm|rmdir|unlink|find|userdel|deluser|mv)\b`).Find(text); m != nil {
			t.Errorf("%s has %q in it", script, m)
		}
	}
	nfpm, err := os.ReadFile(root + "/deploy/nfpm.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(nfpm), outputs) {
		t.Errorf("the package owns something below %s: it would be removed with it", outputs)
	}
}

// TestPackageMakesTheDirectory runs what the package runs when it comes, with tools that say how they were called.
func TestPackageMakesTheDirectory(t *testing.T) {
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skipf("SKIPPED: %v", err)
	}
	dir := t.TempDir()
	called := filepath.Join(dir, "called")
	for _, tool := range []string{"systemd-sysusers", "chgrp", "install", "systemctl"} {
		text := "#!" + shell + "\necho " + tool + " \"$@\" >>" + called + "\n"
		if err := os.WriteFile(filepath.Join(dir, tool), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	script, err := os.ReadFile(root + "/deploy/deb/postinst")
	if err != nil {
		t.Fatal(err)
	}
	for _, there := range []bool{false, true} { // the directory
		state := filepath.Join(dir, "state")
		if there {
			if err := os.Mkdir(state, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(called, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(shell, "-c", strings.ReplaceAll(string(script), outputs, state), "postinst", "configure")
		cmd.Env = []string{"PATH=" + dir}
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Fatalf("postinst: %v: %s", err, out)
		}
		said, err := os.ReadFile(called)
		if err != nil {
			t.Fatal(err)
		}
		makes := strings.Contains(string(said), "install -d -m 0700 -o ringlet -g ringlet "+state+"\n")
		if makes == there || strings.Index(string(said), "systemd-sysusers") != 0 {
			t.Errorf("with a directory there: %v, it calls\n%s", there, said)
		}
	}
}
