package source

import (
	"fmt"
	"strings"

	"ringlet/internal/address"
	"ringlet/internal/registry"
	"ringlet/internal/secret"
	"ringlet/source/ejfat"
	"ringlet/source/shmring"
)

// HostClaim is what a live source occupies on its host and no second source can have there. The zero HostClaim is
// nothing.
type HostClaim struct {
	Listener address.Claim
	Path     string // of a socket, or of shared memory
}

// clashesWith says whether one host could not serve both claims. alone: the address belongs to one host at most, so
// that the claims clash wherever the sources are.
func (t HostClaim) clashesWith(o HostClaim) (clash, alone bool) {
	switch {
	case t.Listener.ConflictsWith(o.Listener):
		return true, t.Listener.Equal(o.Listener) && !t.Listener.CoversAllNetworks()
	case t.Path != "":
		return t.Path == o.Path, false
	}
	return false, false
}

func claimTCP(text string) HostClaim {
	at, _, _ := secret.SplitAddress(text) // Check tells what is wrong with the address
	return HostClaim{Listener: address.ListenerClaim("tcp", at)}
}
func claimUDP(text string) HostClaim {
	return HostClaim{Listener: address.ListenerClaim("udp", ejfat.HostPort(text))}
}
func claimPath(text string) HostClaim { return HostClaim{Path: text} }
func claimRing(text string) HostClaim { return HostClaim{Path: shmring.SegmentPath(text)} }

// CheckInput returns all errors in an input that can be known without its hosts: names of kinds that do not exist, and
// what each kind finds wrong with its addresses. For a file, it checks only the name before the colon.
func CheckInput(input string) (out []error) {
	if kind, _ := KindOf(input); !kind.Live {
		if wrong := checkKindName(input, InputKind{}); wrong != nil && !kind.Generated {
			out = append(out, wrong)
		}
		return out
	}
	before := InputKind{}
	for item := range strings.SplitSeq(input, ",") {
		name, _, _ := strings.Cut(item, ":")
		if row, ok := feedKind(name, item); ok {
			before = row
		} else if wrong := checkKindName(item, before); wrong != nil {
			out = append(out, wrong)
		}
	}
	if out != nil {
		return out // without kinds the addresses cannot be checked
	}
	list, err := ParseInputs(input)
	if err != nil {
		return append(out, err)
	}
	for _, in := range list {
		var err error
		if in.Kind.Check != nil {
			err = in.Kind.Check(in.Address)
		}
		if err == nil && in.Kind.Held != nil {
			_, err = in.Kind.Held(in.Address, in.MaxFragment)
		}
		if err != nil {
			out = append(out, fmt.Errorf("%s: %w", in.Text, err))
		}
	}
	return out
}

// checkKindName returns an error if a part of an input begins with the name of a kind that does not exist, or with a
// kind's name in another spelling. before is the kind of the part before it: free text of that kind may have commas
// and any words after them but the name of a kind.
func checkKindName(item string, before InputKind) error {
	name, _, colon := strings.Cut(item, ":")
	word := strings.TrimSpace(name)
	if !colon || word == "" || strings.Trim(strings.ToLower(word), "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
		return nil
	}
	names := registry.Names(InputKinds())
	nearest := registry.Nearest(strings.ToLower(word), names)
	switch {
	case name == nearest:
		return nil
	case strings.ToLower(word) == nearest && word == nearest:
		return fmt.Errorf("%q has a blank before or after the name of its kind: write %s: and no blanks beside commas", item,
			nearest)
	case strings.ToLower(word) == nearest:
		return fmt.Errorf("%q: the name of a kind is in small letters: write it %s", item, nearest)
	case before.FreeText || before.Name != "" && registry.Distance(strings.ToLower(word), nearest) > maxTypos:
		return nil
	}
	guess := ""
	if registry.Distance(strings.ToLower(word), nearest) <= maxTypos {
		guess = ", and the nearest one is " + nearest
	}
	return fmt.Errorf("%q: %s is no kind of input%s; there are %s; of a file whose name has a colon, write file:%s", item,
		word, guess, strings.Join(names, ", "), item)
}

// maxTypos is the most letters by which a mistyped kind may differ from its name.
const maxTypos = 2

// FindClashes returns an error for each pair of live sources that claim the same address, path or port of one host.
// Two sources are on one host if host returns the same name for both, or if the address belongs to one host alone.
func FindClashes(list []Input, host func(id int) string) (out []error) {
	claims := make([]HostClaim, len(list))
	for i, in := range list {
		if in.Kind.Claim != nil {
			claims[i] = in.Kind.Claim(in.Address)
		}
		for k := range i {
			clash, alone := claims[i].clashesWith(claims[k])
			switch {
			case !clash || !alone && host(i) != host(k):
			case list[k].Kind.Name == in.Kind.Name && list[k].Address == in.Address:
				out = append(out, fmt.Errorf("sources %d and %d are both %s:%s: give each an address of its own", k, i,
					in.Kind.Name, in.Address))
			default:
				out = append(out, fmt.Errorf("sources %d and %d, %s and %s, take the same of one host: give each an address of "+
					"its own", k, i, list[k].Text, in.Text))
			}
			if len(out) > maxClashes {
				return out
			}
		}
	}
	return out
}

// maxClashes bounds how many clashes are listed.
const maxClashes = 8
