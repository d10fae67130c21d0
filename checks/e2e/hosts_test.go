package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Networks of namespaces: rlb0 is the switch, where the crew sits, rlb1 and rlb2 are the hosts.
const (
	switchSpace = "rlb0"
	crewAddress = "10.88.0.254"
)

func hostSpace(i int) string   { return fmt.Sprintf("rlb%d", i) }
func hostAddress(i int) string { return fmt.Sprintf("10.88.0.%d", i) }

// inSpace is a command in a network namespace. Mounts stay ours.
func inSpace(space string, args ...string) []string {
	return append([]string{"nsenter", "--net=/run/netns/" + space}, args...)
}

// hosts are two machines under systemd: containers of systemd-nspawn, each in a network namespace, on a switch.
type hosts struct {
	t   *testing.T
	ssh []string // with its options
}

// debian is a root file system with systemd and sshd, made once and kept: 130 MB.
func debian(t *testing.T) string {
	t.Helper()
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(home, ".cache/ringlet-lab/debian")
	if _, err := os.Stat(filepath.Join(root, "lib/systemd/systemd")); err == nil {
		return root
	}
	t.Log("making a root file system with debootstrap, for this time and all others")
	if err := os.MkdirAll(filepath.Dir(root), 0o755); err != nil {
		t.Fatal(err)
	}
	half := root + ".new"
	out, err := output(nil, nil, "debootstrap", "--variant=minbase",
		"--include=systemd,systemd-sysv,dbus,iproute2,openssh-server", "bookworm", half)
	if err != nil {
		_ = os.RemoveAll(half)
		t.Skipf("SKIPPED: no root file system for the hosts: %v\n%s", err, out)
	}
	if err := os.Rename(half, root); err != nil {
		t.Fatal(err)
	}
	return root
}

// openHosts boots two hosts.
func openHosts(t *testing.T) *hosts {
	t.Helper()
	wanted(t, "baremetal")
	needs(t, "systemd-nspawn", "debootstrap", "ip", "nsenter", "ssh", "ssh-keygen", "dpkg")
	root := debian(t)
	keys := t.TempDir()
	identity := filepath.Join(keys, "id")
	must(t, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", identity)
	h := &hosts{t: t, ssh: inSpace(switchSpace, "ssh", "-i", identity, "-oStrictHostKeyChecking=no",
		"-oUserKnownHostsFile=/dev/null", "-oLogLevel=ERROR", "-oConnectTimeout=5")}
	h.network()
	for i := 1; i <= 2; i++ {
		h.boot(i, root, identity+".pub")
	}
	return h
}

// network makes the switch and a cable to each host.
func (h *hosts) network() {
	ip := func(args ...string) { h.t.Helper(); must(h.t, "ip", args...) }
	for i := range 3 {
		space := hostSpace(i)
		ip("netns", "add", space)
		h.t.Cleanup(func() { must(h.t, "ip", "netns", "del", space) })
		ip("-n", space, "link", "set", "lo", "up")
	}
	ip("-n", switchSpace, "link", "add", "sw", "type", "bridge")
	ip("-n", switchSpace, "addr", "add", crewAddress+"/24", "dev", "sw")
	ip("-n", switchSpace, "link", "set", "sw", "up")
	for i := 1; i <= 2; i++ {
		port := fmt.Sprintf("h%d", i)
		ip("-n", switchSpace, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", hostSpace(i))
		ip("-n", switchSpace, "link", "set", port, "master", "sw", "up")
		ip("-n", hostSpace(i), "addr", "add", hostAddress(i)+"/24", "dev", "eth0")
		ip("-n", hostSpace(i), "link", "set", "eth0", "up")
	}
}

// boot starts a host over the root file system, which stays as it is: what is written goes to memory.
func (h *hosts) boot(i int, root, authorized string) {
	h.t.Helper()
	var said strings.Builder
	cmd := exec.Command("systemd-nspawn", "--quiet", "--directory", root, "--boot", "--volatile=overlay", "--register=no",
		"--keep-unit",
		"--network-namespace-path=/run/netns/"+hostSpace(i), "--machine", hostSpace(i), "--console=pipe",
		"--bind-ro="+authorized+":/root/.ssh/authorized_keys")
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // what it has to say is in said
		close(ended)
	}()
	h.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // power off in good order
		select {
		case <-ended:
		case <-time.After(30 * time.Second):
			_ = cmd.Process.Kill()
			<-ended // bounded by the kernel: it was killed
		}
	})
	took := eventually(h.t, time.Minute, fmt.Sprintf("host %d lets us in", i), func() bool {
		select {
		case <-ended:
			h.t.Fatalf("host %d ended: %v\n%s", i, cmd.ProcessState, &said)
		default:
		}
		_, err := h.on(i, "true")
		return err == nil
	})
	h.t.Logf("host %d is up after %v", i, took)
}

// on runs a command on a host.
func (h *hosts) on(i int, command string) (string, error) {
	return output(nil, nil, h.ssh[0], slices.Concat(h.ssh[1:], []string{"root@" + hostAddress(i), command})...)
}

// place is a host with what its nodes have recorded.
func (h *hosts) place(i int) place {
	return place{hostSpace(i), func(words ...string) (string, error) {
		return h.on(i, "runuser -u ringlet -- ringlet "+strings.Join(words, " "))
	}}
}

func (h *hosts) mustOn(i int, command string) string {
	h.t.Helper()
	out, err := h.on(i, command)
	if err != nil {
		h.t.Fatal(err)
	}
	return strings.TrimSpace(out)
}
