package main

import (
	"errors"
	"fmt"
	"strings"

	"ringlet/internal/safeopen"
	"ringlet/node/config"
	"ringlet/node/hostlimits"
)

type configCmd struct {
	Check configCheckCmd `cmd:"" help:"Check configuration files as load would, without a cluster."`
	Show  configShowCmd  `cmd:"" help:"Print the configuration in effect, every setting filled in, and its hash."`
}

type configCheckCmd struct {
	Files []string `arg:"" name:"file" help:"YAML files, as --config of ringlet run takes them."`
	Set   []string `short:"s" sep:"none" placeholder:"KEY=VALUE" help:"Give a setting this value in each of them; may be given more than once."`
	Here  bool     `help:"All nodes are on this machine: compare what they need with the memory it has, as ringlet run does."`
	Node  []string `sep:"none" placeholder:"NAME[=SIZE]" help:"A node that there is, and the memory it may take: n0=8GiB. Given once for each; without any, nodes are not known and members not looked up."`
}

// Run checks every file and reports all problems.
func (c *configCheckCmd) Run(to streams) error {
	known, err := c.namedNodeFacts()
	if err != nil {
		return &exit{exitUsage, err}
	}
	var refused []error
	for _, file := range c.Files {
		cfg, err := composeConfig(file, c.Set)
		if err == nil {
			err = cfg.CheckNodes(c.addLocalFacts(cfg, known))
		}
		if err != nil {
			refused = append(refused, fmt.Errorf("%s is refused: %w", file, err))
			continue
		}
		fmt.Fprintf(to.out, "%s is good: %d nodes, hash %s\n", file, cfg.Nodes, cfg.Hash())
	}
	if len(refused) > 0 {
		return &exit{exitUsage, errors.Join(refused...)}
	}
	return nil
}

// composeConfig composes the configuration of a file, with settings that override it.
func composeConfig(file string, settings []string) (config.Completed, error) {
	text, err := safeopen.ReadFile(file, safeopen.MaxTextSize)
	if err != nil {
		return config.Completed{}, err
	}
	return config.Compose(file, text, settings)
}

// namedNodeFacts are the facts of the nodes in --node.
func (c *configCheckCmd) namedNodeFacts() ([]config.NodeFacts, error) {
	var out []config.NodeFacts
	for _, text := range c.Node {
		name, size, given := strings.Cut(text, "=")
		f := config.NodeFacts{Name: name}
		if given {
			memory, err := config.ParseBytes(size)
			if err != nil {
				return nil, fmt.Errorf("node: %s: %w", name, err)
			}
			f.MemoryBytes = int64(memory)
		}
		out = append(out, f)
	}
	return out, nil
}

// addLocalFacts adds the facts of this machine with --here.
func (c *configCheckCmd) addLocalFacts(cfg config.Completed, known []config.NodeFacts) []config.NodeFacts {
	if !c.Here {
		return known
	}
	return localNodeFacts(cfg, known)
}

// localNodeFacts are the facts of a configuration's nodes, or of the known ones, if all are on this machine.
func localNodeFacts(cfg config.Completed, known []config.NodeFacts) []config.NodeFacts {
	if known == nil {
		for _, r := range cfg.Roles() {
			known = append(known, config.NodeFacts{Name: r.Name})
		}
	}
	memory, tasks := hostlimits.MemoryLimit(), hostlimits.TaskLimit()
	shm, among := hostlimits.SharedMemory()
	out := make([]config.NodeFacts, len(known))
	for i, f := range known {
		f.MachineID, f.ShmBytes, f.MaxTasks = among, shm, tasks
		if f.MemoryBytes == 0 {
			f.MemoryBytes = memory
		}
		out[i] = f
	}
	return out
}

type configShowCmd struct {
	File string   `arg:"" optional:"" help:"YAML file; without one, the defaults."`
	Set  []string `short:"s" sep:"none" placeholder:"KEY=VALUE" help:"Give a setting this value; may be given more than once."`
}

// Run prints the complete configuration, which can be read as one again.
func (c *configShowCmd) Run(to streams) error {
	cfg, err := config.Compose("", nil, c.Set)
	if c.File != "" {
		cfg, err = composeConfig(c.File, c.Set)
	}
	if err != nil {
		return &exit{exitUsage, err}
	}
	_, err = fmt.Fprintf(to.out, "# SHA-256 %s\n%s", cfg.Hash(), cfg.Effective())
	return err
}
