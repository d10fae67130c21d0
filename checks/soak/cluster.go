package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"ringlet/lab/testbed"
	"ringlet/node/certs"
)

const controlName = "control"

// A cluster is a control and its nodes, each on its own host (a network namespace) if the machine allows that.
type cluster struct {
	env    env
	exe    string // ringlet
	dir    string // with all files of the cluster
	bed    *testbed.Bed
	report func(problem string)

	hosts           map[string]*host // by name of the process
	processByName   map[string]*process
	operator        *operator
	filters         map[string]*process // of the current run
	decisionAddr    string              // address at which the decision unit listens for subscribers
	smallDiskMounts []string            // mounted file systems
	injector        faultInjector
	sealLog         sealLog
}

// smallDiskOption is the size of a disk that can be filled: four runs.
const smallDiskOption = "size=192m"

// processEndTimeout is the most time that a process may take to end on SIGTERM; a node in a run takes up to its grace,
// 30 s.
const processEndTimeout = 60 * time.Second

// newCluster makes a cluster in a directory that does not exist yet.
func newCluster(ctx context.Context, env env, exe, dir string, report func(string)) (c *cluster, err error) {
	c = &cluster{
		env:           env,
		exe:           exe,
		dir:           dir,
		report:        report,
		hosts:         map[string]*host{},
		processByName: map[string]*process{},
	}
	c.injector = faultInjector{c: c}
	defer func() {
		if err != nil {
			c.abandon()
		}
	}()
	if err := c.folders(); err != nil {
		return c, err
	}
	if env.Network {
		if err := c.network(); err != nil {
			return c, err
		}
	}
	if err := c.startHosts(); err != nil {
		return c, err
	}
	return c, c.processes(ctx)
}

func (c *cluster) path(elems ...string) string {
	return filepath.Join(append([]string{c.dir}, elems...)...)
}

// folders makes the folders of the processes, and small disks that a fault can fill.
func (c *cluster) folders() error {
	for _, d := range []string{"logs", string(sharedFiles), string(perHostFiles), string(smallDiskFiles)} {
		if err := os.MkdirAll(c.path(d), 0o755); err != nil {
			return err
		}
	}
	if !c.env.Mounts {
		return nil
	}
	for _, n := range names(0, nodeCount) {
		for _, p := range []outputPlace{perHostFiles, smallDiskFiles} {
			if err := os.MkdirAll(c.files(n, p), 0o755); err != nil {
				return err
			}
		}
		disk := c.files(n, smallDiskFiles)
		if err := unix.Mount("soak", disk, "tmpfs", 0, smallDiskOption); err != nil {
			return fmt.Errorf("no small disk at %s: %w", disk, err)
		}
		c.smallDiskMounts = append(c.smallDiskMounts, disk)
	}
	return nil
}

// files is the path at which this process sees a node's files of a place.
func (c *cluster) files(node string, p outputPlace) string { return c.path("hosts", node, string(p)) }

// outputDirs are the paths at which this process sees the output of a run at a place.
func (c *cluster) outputDirs(p outputPlace) []string {
	if p == nowhere {
		return nil
	}
	if p == sharedFiles {
		return []string{c.path(string(sharedFiles))}
	}
	var out []string
	for _, n := range names(0, nodeCount) {
		out = append(out, c.files(n, p))
	}
	return out
}

// network makes the hosts and their switch.
func (c *cluster) network() (err error) {
	spec := testbed.Spec{Hosts: nodeCount, Rate: 1_000_000_000, Queue: 1 << 20}
	if err := spec.Complete(); err != nil {
		return err
	}
	if c.bed, err = testbed.New(spec); err != nil {
		return err
	}
	if !c.env.Filter {
		return nil
	}
	return c.bed.WithDetours(slowQueueRate)
}

// startHosts makes a host for each process.
func (c *cluster) startHosts() (err error) {
	for i, n := range append(names(0, nodeCount), controlName) {
		addr, enter := "127.0.0.1", (func() error)(nil)
		var binds []bindMount
		if c.bed != nil {
			addr, enter = c.bed.Address(i), func() error { return c.bed.Enter(n) }
			if n == controlName {
				addr = c.bed.ControlAddress()
			}
		}
		if c.env.Mounts && n != controlName {
			for _, p := range []outputPlace{perHostFiles, smallDiskFiles} {
				binds = append(binds, bindMount{c.files(n, p), c.path(string(p))})
			}
		}
		if c.hosts[n], err = newHost(n, addr, enter, binds); err != nil {
			delete(c.hosts, n)
			return err
		}
	}
	return nil
}

// processes makes keys and starts the control and the nodes.
func (c *cluster) processes(ctx context.Context) error {
	join, api, page := "7946", "7947", ""
	if c.bed == nil {
		ports, err := freePorts(4)
		if err != nil {
			return err
		}
		join, api = ports[0], ports[1]
		c.decisionAddr = net.JoinHostPort("127.0.0.1", ports[2])
		if c.env.Hostile {
			page = net.JoinHostPort("127.0.0.1", ports[3])
		}
	}
	keys := append([]string{"certs", "keys", "--user", operatorName + ":operator"}, names(0, nodeCount)...)
	for _, h := range c.hosts {
		keys = append(keys, "--host", h.addr)
	}
	if _, err := c.runRinglet(ctx, keys...); err != nil {
		return err
	}
	id, err := certs.Load(c.path("keys"), operatorName)
	if err != nil {
		return err
	}
	at := c.hosts[controlName]
	address := net.JoinHostPort(at.addr, api)
	if c.operator, err = dialOperator(address, id, at.dial); err != nil {
		return err
	}
	c.add(controlName, "control", "--certs", "keys", "--host", at.addr, "--port", join,
		"--api", address, "--page", page, "--state", "state", "--patience", "20s")
	for _, n := range names(0, nodeCount) {
		c.add(n, "node", "--name", n, "--certs", "keys", "--host", c.hosts[n].addr, "--join", net.JoinHostPort(at.addr, join),
			"--allow", "unix:"+c.path("front-end"))
	}
	for _, p := range c.processByName {
		if err := p.start(); err != nil {
			return err
		}
	}
	return nil
}

func (c *cluster) add(name string, args ...string) {
	c.processByName[name] = &process{
		name:   name,
		args:   args,
		host:   c.hosts[name],
		log:    c.path("logs", name+".log"),
		dir:    c.dir,
		exe:    c.exe,
		report: c.report,
	}
}

// freePorts returns n ports of this machine that are free now.
func freePorts(n int) (out []string, err error) {
	for range n {
		lis, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer func() { _ = lis.Close() }()
		out = append(out, strconv.Itoa(lis.Addr().(*net.TCPAddr).Port))
	}
	return out, nil
}

// countStarts is how often the nodes, and the control, were started.
func (c *cluster) countStarts() (nodeStarts, controlStarts int) {
	for n, p := range c.processByName {
		if n == controlName {
			controlStarts += p.startCount()
		} else {
			nodeStarts += p.startCount()
		}
	}
	return nodeStarts, controlStarts
}

// saveSmallDisks copies the files of the small disks, which vanish with the soak.
func (c *cluster) saveSmallDisks() error {
	var errs []error
	for _, disk := range c.smallDiskMounts {
		errs = append(errs, os.CopyFS(disk+"-kept", os.DirFS(disk)))
	}
	return errors.Join(errs...)
}

// close ends all processes with SIGTERM. It reports processes that do not end, and files that they leave in shared
// memory. The caller calls abandon afterwards.
func (c *cluster) close() (problems []string) {
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, p := range c.processByName {
		all.Go(func() {
			if problem := p.retire(processEndTimeout); problem != "" {
				mu.Lock()
				defer mu.Unlock()
				problems = append(problems, problem)
			}
		})
	}
	all.Wait()
	return append(problems, c.leftoverMemory()...)
}

// leftoverMemory reports files in shared memory of processes that have ended.
func (c *cluster) leftoverMemory() []string {
	files, err := filepath.Glob("/dev/shm/ringlet-*")
	if err != nil {
		return []string{err.Error()}
	}
	var pids []string
	for _, p := range c.processByName {
		for _, pid := range p.pids {
			pids = append(pids, strconv.Itoa(pid))
		}
	}
	ours := func(file string) bool {
		fields := strings.Split(filepath.Base(file), "-")
		return slices.ContainsFunc(fields, func(p string) bool { return slices.Contains(pids, p) })
	}
	if files = slices.DeleteFunc(files, func(f string) bool { return !ours(f) }); len(files) > 0 {
		return []string{"left behind in shared memory: " + strings.Join(files, ", ")}
	}
	return nil
}

// dump lets every process write the stacks of its goroutines to its log, and ends them all.
func (c *cluster) dump() {
	var all sync.WaitGroup
	for _, p := range c.processByName {
		all.Go(func() {
			p.setRestart(false)
			p.dump()
		})
	}
	all.Wait()
}

// abandon kills all processes and frees everything else. It may be called twice.
func (c *cluster) abandon() {
	for _, p := range c.processByName {
		p.kill()
	}
	if c.operator != nil {
		c.operator.close()
	}
	for _, h := range c.hosts {
		h.close()
	}
	for _, disk := range c.smallDiskMounts {
		_ = unix.Unmount(disk, unix.MNT_DETACH) // else the kernel unmounts it when this process ends
	}
	_ = c.bed.Close()
	c.hosts, c.processByName, c.smallDiskMounts, c.bed, c.operator = nil, nil, nil, nil, nil
}

// heal ends all faults and waits until every process runs again.
func (c *cluster) heal(ctx context.Context) error {
	for _, p := range c.processByName {
		p.resume()
	}
	if err := c.injector.endAll(); err != nil {
		return err
	}
	return pollUntil(ctx, "what had ended was there again", processEndTimeout, func(context.Context) (bool, error) {
		for _, p := range c.processByName {
			p.mu.Lock()
			here := p.cmd != nil && !p.exitExpected
			p.mu.Unlock()
			if !here {
				return false, errors.New(p.name + " is not running")
			}
		}
		return true, nil
	})
}
