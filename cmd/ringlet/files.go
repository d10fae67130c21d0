package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"ringlet/ecs/partition/nodes"
	"ringlet/event/pattern"
	"ringlet/lab/gen"
	"ringlet/lab/inspect"
	"ringlet/node/certs"
	"ringlet/node/config"
	"ringlet/recording"
	"ringlet/source"
	"ringlet/velo/content"
	"ringlet/velo/detectorfile"
	"ringlet/velo/frontend"
)

type inspectCmd struct {
	Files  []string `arg:"" name:"file" help:"Files, and directories of runs, of which each segment is looked into."`
	Format string   `default:"auto" enum:"auto,mdf,mep,mfp,eudaq" help:"What they are: ${enum}."`
	Mode   string   `default:"summary" enum:"summary,dump,verify" help:"What to do: ${enum}. verify checks everything and names each problem."`
	Limit  int      `default:"0" help:"Records or packets to look at. 0 = all."`
	JSON   bool     `name:"json" help:"Print JSON."`
}

// Run inspects the files, one after the other. After a bad file it goes on with the next.
func (c *inspectCmd) Run(ctx context.Context, to streams) error {
	files, err := inspect.Files(c.Files)
	if err != nil {
		return err
	}
	var all, others []error
	for _, file := range files {
		err := inspect.Inspect(ctx, to.out, file, inspect.Options{
			Format: inspect.Format(c.Format),
			Mode:   inspect.Mode(c.Mode),
			Limit:  c.Limit,
			JSON:   c.JSON,
		})
		var bad *inspect.BadInputError
		switch {
		case err == nil:
			continue
		case ctx.Err() != nil:
			return err
		case !errors.As(err, &bad):
			others = append(others, err)
		}
		all = append(all, err)
	}
	if err := errors.Join(all...); len(others) == 0 && err != nil {
		return &exit{exitInput, err}
	}
	return errors.Join(all...)
}

type genCmd struct {
	File          string `arg:"" help:"The file to write."`
	Format        string `default:"auto" enum:"auto,mdf,mep,mfp" help:"What to write: ${enum}. auto goes by the ending of the file, and is mdf where it has none."`
	Events        uint64 `default:"1000" help:"Events to write."`
	Packing       int    `default:"1000" help:"Events per MFP."`
	Streams       int    `default:"3" help:"Sources."`
	FragmentSize  int    `default:"133" help:"Mean size of a fragment, bytes."`
	FragmentModel string `default:"lhcb" enum:"lhcb,poisson,constant" help:"Sizes of fragments: ${enum}."`
	Seed          uint64 `default:"1" help:"Seed: the same gives the same bytes."`
	RunNumber     uint32 `default:"1" help:"Run number in MDF headers."`
	Overwrite     bool   `help:"Replace what stands there, when the new file is whole."`
	Detector      string `placeholder:"WHICH" help:"Write the boards of a simulated vertex detector, one source each: velo, or a YAML file that describes another. What happened is written beside the file, to NAME.truth.jsonl."`
	Raw           bool   `help:"With --detector: sample every strip, and prepare the values as the front-end does it. It takes long; the clusters are distributed alike."`
}

// Run writes generated data to a file.
func (c *genCmd) Run(ctx context.Context, to streams) error {
	format, err := recording.ChooseFormat(c.File, c.Format)
	if err != nil {
		return &exit{exitUsage, err}
	}
	model, err := pattern.ParseModel(c.FragmentModel)
	if err != nil {
		return &exit{exitUsage, err}
	}
	made, err := c.content()
	if err != nil {
		return &exit{exitUsage, err}
	}
	r, err := gen.Generate(ctx, gen.Config{
		Path:         c.File,
		Format:       format,
		Events:       c.Events,
		Packing:      c.Packing,
		Streams:      c.Streams,
		FragmentSize: c.FragmentSize,
		Model:        model,
		Seed:         c.Seed,
		Run:          c.RunNumber,
		Overwrite:    c.Overwrite,
		Content:      made,
	})
	if err != nil {
		return err
	}
	if made != nil {
		fmt.Fprintf(to.out, "%s: what happened at these events\n", gen.TruthPath(c.File))
	}
	_, err = fmt.Fprintf(to.out, "%s: %d events, %d bytes\n", r.Path, r.Events, r.Bytes)
	return err
}

// content is the content of the simulated detector of --detector; nil without it.
func (c *genCmd) content() (*source.ContentKind, error) {
	switch {
	case c.Detector == "" && c.Raw:
		return nil, errors.New("gen: only a detector has raw values: give --detector, or leave out --raw")
	case c.Detector == "":
		return nil, nil
	case c.Streams != 3 || c.FragmentSize != 133 || c.FragmentModel != "lhcb":
		return nil, errors.New("gen: a detector has sources and sizes of its own: leave out --streams, --fragment-size and " +
			"--fragment-model")
	}
	d, err := loadDetector(c.Detector)
	if err != nil {
		return nil, err
	}
	return content.KindOf(d, c.Raw, runtime.GOMAXPROCS(0)), nil
}

// loadDetector loads the detector of a file, or the built-in one.
func loadDetector(name string) (*frontend.Detector, error) {
	d := detectorfile.New()
	if name != content.Name {
		err := config.LoadDescription(name, d)
		return d.Detector(), err
	}
	err := d.Complete()
	return d.Detector(), err
}

type certsCmd struct {
	Dir   string        `arg:"" help:"Directory to write to; an authority that is already there is used."`
	Names []string      `arg:"" optional:"" help:"Names of the nodes. The control needs none: its certificate is made too."`
	User  []certUser    `placeholder:"NAME:ROLE" help:"People who may ask the control, each with a role: viewer, operator or admin."`
	Host  []string      `help:"Host names and addresses under which the nodes are dialled."`
	Life  time.Duration `default:"2160h" help:"How long the certificates are good."`
}

// Run makes a development authority, certificates and the gossip key.
func (c *certsCmd) Run(to streams) error {
	ca, err := certs.LoadCA(c.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		if ca, err = certs.NewCA(0); err == nil {
			err = ca.Save(c.Dir)
		}
	}
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(c.Dir, certs.GossipFile)); errors.Is(err, fs.ErrNotExist) {
		if err := certs.SaveGossipKey(c.Dir, certs.NewGossipKey()); err != nil {
			return err
		}
	}
	issue := func(name string, hosts []string, role certs.Role) error {
		id, err := ca.Issue(name, hosts, role, c.Life)
		if err == nil {
			err = id.Save(c.Dir)
		}
		if err == nil {
			fmt.Fprintf(to.out, "%s: good until %s\n", name, id.NotAfter().Format(time.RFC3339))
		}
		return err
	}
	for _, name := range append([]string{nodes.ControlName}, c.Names...) {
		role := certs.RoleNode
		if name == nodes.ControlName {
			role = certs.RoleControl
		}
		if err := issue(name, c.Host, role); err != nil {
			return err
		}
	}
	for _, u := range c.User {
		if err := issue(u.Name, nil, u.Role); err != nil {
			return err
		}
	}
	return nil
}

// certUser is NAME:ROLE.
type certUser certs.Peer

// UnmarshalText parses NAME:ROLE.
func (u *certUser) UnmarshalText(text []byte) error {
	name, role, _ := strings.Cut(string(text), ":")
	u.Name, u.Role = name, certs.Role(role)
	if !u.Role.IsUser() {
		return fmt.Errorf("%q is not NAME:ROLE with one of the roles viewer, operator, admin", text)
	}
	return certs.CheckName(name)
}
