package node

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"ringlet/internal/registry"
	"ringlet/internal/secret"
	"ringlet/node/config"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/source"
	"ringlet/tagnet"
)

// Allowlist says what a configuration may use of a node's host beside its network and memory: programs, sockets and
// shared memory as inputs, and places for files. It is needed because a person who may load a configuration need not be
// a user of the host. Nil: everything.
type Allowlist struct {
	rules map[string][]string // by kind: paths that are allowed with everything below; "" is all
}

// Kinds beside those of sources: outputs to files, and files with the secret of a source or an outlet.
const (
	allowOutput = "output"
	allowUnix   = "unix" // the kind of source, also for a trigger
	allowSecret = "secret"
)

// localSourceKinds are the kinds of sources that need a rule.
func localSourceKinds() (rows []source.InputKind) {
	return slices.DeleteFunc(slices.Clone(source.InputKinds()),
		func(r source.InputKind) bool { return r.Feed == nil || r.Network })
}

// ParseAllowlist parses rules: a kind allows all of it; a kind, a colon and a path allow that path and everything below
// it. A plain name of shared memory means one in /dev/shm. Without a rule for outputs, those below dir are allowed,
// unless dir is the root; without a rule for secrets, those below keys.
func ParseAllowlist(rules []string, dir, keys string) (*Allowlist, error) {
	a := &Allowlist{map[string][]string{}}
	rows := append(localSourceKinds(), source.InputKind{Kind: registry.Kind{Name: allowOutput}},
		source.InputKind{Kind: registry.Kind{Name: allowSecret}})
	for _, rule := range rules {
		kind, what, colon := strings.Cut(rule, ":")
		row, err := registry.Find("allow", rows, kind)
		if err != nil {
			return nil, err
		}
		if row.Claim != nil && what != "" && !strings.Contains(what, "/") {
			what = row.Claim(what).Path
		}
		switch {
		case colon && !filepath.IsAbs(what):
			return nil, fmt.Errorf("%q has no absolute path behind its colon: give one, as in %s:/srv/daq, or leave out the "+
				"colon to allow all of %s", rule, kind, kind)
		case colon:
			what = filepath.Clean(what)
		}
		a.rules[kind] = append(a.rules[kind], what)
	}
	if dir = filepath.Clean(dir); a.rules[allowOutput] == nil && dir != "/" {
		a.rules[allowOutput] = []string{dir}
	}
	if a.rules[allowSecret] == nil && filepath.IsAbs(keys) {
		a.rules[allowSecret] = []string{filepath.Clean(keys)}
	}
	return a, nil
}

// permits tells whether a kind of use is allowed for an absolute path.
func (a *Allowlist) permits(kind, path string) bool {
	return slices.ContainsFunc(a.rules[kind], func(rule string) bool {
		if rule == "" {
			return true
		}
		rel, err := filepath.Rel(rule, path)
		return err == nil && filepath.IsLocal(rel)
	})
}

// Check says why a node with a place in a run may not use what a configuration needs of its host: the error is a
// sentence that names the host and the flag that would allow it. The configuration is complete.
func (a *Allowlist) Check(cfg *config.Completed, member *nodev1.Member) error {
	if a == nil {
		return nil
	}
	if member.GetReadout() && cfg.HasLiveSources() {
		list, err := source.ParseInputs(cfg.Input)
		if err != nil {
			return err
		}
		network, path, err := source.ParseBusyTarget(cfg.Busy)
		if err == nil && network == "unixgram" && !a.permits(allowUnix, path) {
			return notAllowedError("busy", cfg.Busy, allowUnix)
		}
		division := cfg.Division()
		for id, in := range list {
			if division.UnitOf(id) != int(member.GetRuIndex()) {
				continue
			}
			if !a.permitsInput(in) {
				return notAllowedError("input", in.Text, in.Kind.Name)
			}
			if err := a.checkSecret(in.Address); in.Kind.Network && err != nil {
				return err
			}
		}
	}
	if member.GetName() == cfg.DecisionNode {
		for _, outlet := range cfg.DecisionOutlets() {
			if err := a.checkSecret(outlet.Location); err != nil {
				return err
			}
		}
	}
	if member.GetBuilder() {
		return a.CheckFiles(cfg)
	}
	return nil
}

// checkTrigger says why triggers may not be received so on this host.
func (a *Allowlist) checkTrigger(t tagnet.Trigger) error {
	if a == nil || t.Kind != tagnet.TriggerUnix || a.permits(allowUnix, t.Address) {
		return nil
	}
	return notAllowedError("trigger", "unix:"+t.Address, allowUnix)
}

// CheckFiles says why the files of a configuration's outputs may not be written where they would be.
func (a *Allowlist) CheckFiles(cfg *config.Completed) error {
	if a == nil {
		return nil
	}
	for _, one := range cfg.FileOutputs() {
		path, err := filepath.Abs(one.Output)
		if err != nil {
			return err
		}
		if one.SingleFile() { // files made from it are written beside it
			path = filepath.Dir(path)
		}
		if !a.permits(allowOutput, path) {
			return notAllowedError("output", one.Output, allowOutput+":"+path)
		}
	}
	return nil
}

// checkSecret says why the secret file in an address may not be read; nil also if the address has none.
func (a *Allowlist) checkSecret(address string) error {
	_, file, _ := secret.SplitAddress(address) // the kind itself reports what is wrong with an address
	if file == "" {
		return nil
	}
	path, err := filepath.Abs(file)
	if err == nil && !a.permits(allowSecret, path) {
		err = notAllowedError("secret", file, allowSecret+":"+filepath.Dir(path))
	}
	return err
}

// permitsInput tells whether a live source is allowed. If only some programs are allowed, the command must have only
// plain words, since a shell runs it.
func (a *Allowlist) permitsInput(in source.Input) bool {
	switch {
	case in.Kind.Network:
		return true
	case slices.Contains(a.rules[in.Kind.Name], ""):
		return true
	case in.Kind.FreeText:
		words := strings.Fields(in.Address)
		if strings.ContainsFunc(in.Address, isShellSpecial) || len(words) == 0 || !filepath.IsAbs(words[0]) {
			return false
		}
		return a.permits(in.Kind.Name, words[0])
	case in.Kind.Claim == nil:
		return false
	}
	path, err := filepath.Abs(in.Kind.Claim(in.Address).Path)
	return err == nil && a.permits(in.Kind.Name, path)
}

// isShellSpecial tells whether a character may mean something to a shell.
func isShellSpecial(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune(" /._-+=:,@%", r)
}

// maxShownInput is how many bytes of an input an error shows.
const maxShownInput = 200

// notAllowedError refuses a use that the host does not allow.
func notAllowedError(setting, what, rule string) error {
	host, err := os.Hostname()
	if err != nil {
		host = "of this node"
	}
	if len(what) > maxShownInput {
		what = strings.ToValidUTF8(what[:maxShownInput], "") + "…"
	}
	return fmt.Errorf("%s %q is not allowed on host %s: start ringlet node there with --allow %s to allow it",
		setting, what, host, rule)
}
