package source

import (
	"fmt"
	"strings"

	"ringlet/internal/address"
	"ringlet/internal/registry"
	"ringlet/internal/secret"
	"ringlet/readoutunit/source/ejfat"
	"ringlet/readoutunit/source/shmring"
)

// Taken is what of a host a live source takes, and only one can have. The zero Taken is nothing.
type Taken struct {
	Listener address.Claim
	Path     string // of a socket, or of shared memory
}

// clash says whether one host could not have both. alone: there is one such host at most.
func (t Taken) clash(o Taken) (clash, alone bool) {
	switch {
	case t.Listener.Clash(o.Listener):
		return true, t.Listener.Equal(o.Listener) && !t.Listener.AllNetworks()
	case t.Path != "":
		return t.Path == o.Path, false
	}
	return false, false
}

func takesTCP(text string) Taken {
	at, _, _ := secret.SplitAddress(text) // what is wrong with it the check says
	return Taken{Listener: address.ListenerClaim("tcp", at)}
}
func takesUDP(text string) Taken {
	return Taken{Listener: address.ListenerClaim("udp", ejfat.Where(text))}
}
func takesPath(text string) Taken { return Taken{Path: text} }
func takesRing(text string) Taken { return Taken{Path: shmring.Segment(text)} }

// Mistakes are all that is wrong with what an input says, whatever is on the hosts: kinds that there are not, and what
// each kind says of its addresses. Of a file only the name of its kind is looked at.
func Mistakes(input string) (out []error) {
	if kind, _ := Of(input); !kind.Live {
		if wrong := noKind(input, Row{}); wrong != nil && !kind.Made {
			out = append(out, wrong)
		}
		return out
	}
	before := Row{}
	for part := range strings.SplitSeq(input, ",") {
		name, _, _ := strings.Cut(part, ":")
		if row, ok := feedRow(name, part); ok {
			before = row
		} else if wrong := noKind(part, before); wrong != nil {
			out = append(out, wrong)
		}
	}
	if out != nil {
		return out // the addresses are not known
	}
	list, err := Inputs(input)
	if err != nil {
		return append(out, err)
	}
	for _, in := range list {
		if in.Kind.Check == nil {
			continue
		}
		if err := in.Kind.Check(in.Address); err != nil {
			out = append(out, fmt.Errorf("%s: %w", in.Name, err))
		}
	}
	return out
}

// noKind says that a part of an input has the name of a kind that there is not, or one that is spelled in another way.
// before is the kind of the part before it: text of that kind may have anything but the name of a kind.
func noKind(part string, before Row) error {
	name, _, colon := strings.Cut(part, ":")
	word := strings.TrimSpace(name)
	if !colon || word == "" || strings.Trim(strings.ToLower(word), "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
		return nil
	}
	names := registry.Names(Choices())
	nearest := registry.Nearest(strings.ToLower(word), names)
	switch {
	case name == nearest:
		return nil
	case strings.ToLower(word) == nearest && word == nearest:
		return fmt.Errorf("%q has a blank before or behind the name of its kind: write %s: and no blanks beside commas", part,
			nearest)
	case strings.ToLower(word) == nearest:
		return fmt.Errorf("%q: the name of a kind is in small letters: write it %s", part, nearest)
	case before.Text || before.Name != "" && registry.Distance(strings.ToLower(word), nearest) > near:
		return nil
	}
	guess := ""
	if registry.Distance(strings.ToLower(word), nearest) <= near {
		guess = ", and the nearest one is " + nearest
	}
	return fmt.Errorf("%q: %s is no kind of input%s; there are %s; of a file whose name has a colon, write file:%s", part,
		word, guess, strings.Join(names, ", "), part)
}

// near is how many letters a mistyped kind may differ by.
const near = 2

// Clashes are the live sources that want the same: where host says for two that they are on one host, or where the
// address is that of one host alone.
func Clashes(list []Input, host func(id int) string) (out []error) {
	taken := make([]Taken, len(list))
	for i, in := range list {
		if in.Kind.Takes != nil {
			taken[i] = in.Kind.Takes(in.Address)
		}
		for k := range i {
			clash, alone := taken[i].clash(taken[k])
			switch {
			case !clash || !alone && host(i) != host(k):
			case list[k].Name == in.Name:
				out = append(out, fmt.Errorf("sources %d and %d are both %s: give each an address of its own", k, i, in.Name))
			default:
				out = append(out, fmt.Errorf("sources %d and %d, %s and %s, take the same of one host: give each an address of "+
					"its own", k, i, list[k].Name, in.Name))
			}
			if len(out) > mostClashes {
				return out
			}
		}
	}
	return out
}

// mostClashes bounds what is said.
const mostClashes = 8
