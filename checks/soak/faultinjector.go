package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ringlet/lab/testbed"
)

// A faultInjector makes faults in a cluster, and ends them.
type faultInjector struct {
	c              *cluster
	netFaults      []fault  // current faults of the network
	fillFiles      []string // files that fill disks
	resettingHosts []string // hosts that answer with resets

	commands        sync.WaitGroup // exclude and include under way
	mu              sync.Mutex
	refusedCommands []string // exclude and include that the control has refused
}

// begin begins a fault. An error says why it could not.
func (s *faultInjector) begin(ctx context.Context, f fault) error {
	verb, _, _ := strings.Cut(string(f.Kind), " ")
	switch {
	case f.Kind == killEverybody:
		return s.killAll()
	case verb == "kill":
		return s.signal(f, syscall.SIGKILL, true)
	case verb == "stop":
		return s.signal(f, syscall.SIGSTOP, false)
	case verb == "term":
		return s.signal(f, syscall.SIGTERM, true)
	case f.Kind == exclude:
		s.commandNode(ctx, "exclude", map[string]string{"node": f.Node})
		return nil
	case f.Kind == move:
		s.commandNode(ctx, "move", map[string]string{"node": f.Node, "to": f.Second})
		return nil
	case f.Kind == diskFull:
		return s.fill(f.Node)
	case f.Kind == reset:
		s.resettingHosts = append(s.resettingHosts, f.Node)
		return s.c.bed.SetResets(f.Node, true)
	}
	s.netFaults = append(s.netFaults, f)
	return s.applyNetRules()
}

// targetProcesses are the processes that a fault strikes.
func (s *faultInjector) targetProcesses(f fault) []*process {
	if f.Kind == killFilter {
		return []*process{s.c.filters[f.Node]}
	}
	out := []*process{s.c.processByName[cmp.Or(f.Node, controlName)]}
	if f.Second != "" {
		out = append(out, s.c.processByName[f.Second])
	}
	return out
}

// signal sends a signal to the processes that a fault strikes; an error says that none of them has got it.
func (s *faultInjector) signal(f fault, sig syscall.Signal, final bool) error {
	var errs []error
	struck := s.targetProcesses(f)
	for _, p := range struck {
		if err := p.signal(sig, final); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) < len(struck) {
		return nil
	}
	return errors.Join(errs...)
}

// end ends a fault that lasts.
func (s *faultInjector) end(ctx context.Context, f fault) error {
	verb, _, _ := strings.Cut(string(f.Kind), " ")
	switch {
	case verb == "stop":
		for _, p := range s.targetProcesses(f) {
			p.resume()
		}
		return nil
	case f.Kind == exclude:
		s.commandNode(ctx, "include", map[string]string{"node": f.Node})
		return nil
	case f.Kind == move:
		s.commandNode(ctx, "move", map[string]string{"node": f.Node, "to": f.Node})
		return nil
	case f.Kind == diskFull:
		return s.freeDisks()
	case f.Kind == reset:
		return s.stopResets()
	}
	s.netFaults = slices.DeleteFunc(s.netFaults, func(g fault) bool { return g == f })
	return s.applyNetRules()
}

func (s *faultInjector) applyNetRules() error {
	switch {
	case s.c.bed == nil:
		return nil
	case s.c.env.Filter:
		return s.c.bed.SetFilter(netRules(s.netFaults, testbed.Detour))
	}
	for host := range s.c.hosts { // without a filter there are cuts alone
		plugged := !slices.ContainsFunc(s.netFaults, func(f fault) bool { return cmp.Or(f.Node, controlName) == host })
		if err := s.c.bed.SetCable(host, plugged); err != nil {
			return err
		}
	}
	return nil
}

// killAll kills all nodes and the control at the same moment.
func (s *faultInjector) killAll() error {
	var errs []error
	for _, p := range s.c.processByName {
		if err := p.signal(syscall.SIGKILL, true); err != nil && !errors.Is(err, errNotThere) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// commandNode gives a command for a node in the background. The control may refuse it if the policy does not tolerate
// it.
func (s *faultInjector) commandNode(ctx context.Context, command string, arguments map[string]string) {
	s.commands.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, endTimeout)
		defer cancel()
		err := s.c.operator.command(ctx, command, arguments)
		if err != nil && isRefusal(err) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.refusedCommands = append(s.refusedCommands, fmt.Sprintf("%s %s: %s", command, arguments["node"], errText(err)))
		}
	})
}

// ballastFile is the file that fills a disk.
const ballastFile = "ballast"

// fill leaves no byte on the small disk of a node.
func (s *faultInjector) fill(node string) error {
	name := filepath.Join(s.c.files(node, smallDiskFiles), ballastFile)
	s.fillFiles = append(s.fillFiles, name)
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	for block := make([]byte, 1<<20); len(block) > 0; {
		if _, err := f.Write(block); errors.Is(err, unix.ENOSPC) {
			block = block[:len(block)/2]
		} else if err != nil {
			return err
		}
	}
	return nil
}

func (s *faultInjector) freeDisks() error {
	var errs []error
	for _, name := range s.fillFiles {
		if err := os.Remove(name); !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	s.fillFiles = nil
	return errors.Join(errs...)
}

// stopResets ends the faults of kind reset.
func (s *faultInjector) stopResets() error {
	var errs []error
	for _, node := range s.resettingHosts {
		errs = append(errs, s.c.bed.SetResets(node, false))
	}
	s.resettingHosts = nil
	return errors.Join(errs...)
}

// endAll ends the faults of network and disks, and waits for the commands in the background.
func (s *faultInjector) endAll() error {
	s.netFaults = nil
	err := errors.Join(s.applyNetRules(), s.stopResets(), s.freeDisks())
	done := make(chan struct{})
	go func() { s.commands.Wait(); close(done) }()
	select {
	case <-done:
		return err
	case <-time.After(endTimeout):
		return errors.Join(err, &hangError{What: "exclude or include was answered", Bound: endTimeout})
	}
}
