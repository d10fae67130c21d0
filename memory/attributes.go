package memory

import (
	"fmt"
	"strings"

	"ringlet/shmem"
)

// PageSize is the unit of protection, bytes.
const PageSize = shmem.PageSize

// Everybody in Pages.Peer opens pages to all members of the view.
const Everybody = -1

// Allow is a set of accesses that a peer has to a page.
type Allow uint8

// Accesses of a peer. Wait needs Read.
const (
	AllowRead   Allow = 1 << iota
	AllowWrite        // Write and WriteMany
	AllowLock         // Add, Swap and CompareAndSwap
	AllowNotify       // Notify

	AllowAll = AllowRead | AllowWrite | AllowLock | AllowNotify
)

// Attributes say how a page is written.
type Attributes uint8

// Attributes. None means that each write is answered (nwrite) and independent of others.
const (
	Dmove     Attributes = 1 << iota // not answered: losses are not repaired; expires at the transaction's time-out
	Ordered                          // in order within an ordering context
	Combining                        // small writes are gathered in write buffers

	attributesAll = Dmove | Ordered | Combining
)

// Pages opens Count pages from First on to a peer. If several rules cover a page, the last one that names the peer, or
// everybody, decides.
type Pages struct {
	First, Count int
	Peer         int // rank in the view, or Everybody
	Allow        Allow
	Attributes   Attributes
}

func (a Allow) String() string {
	return letters(uint8(a), "rwln")
}

func (a Attributes) String() string {
	var words []string
	kind := "nwrite"
	if a&Dmove != 0 {
		kind = "dmove"
	}
	words = append(words, kind)
	if a&Ordered != 0 {
		words = append(words, "ordered")
	}
	if a&Combining != 0 {
		words = append(words, "combining")
	}
	return strings.Join(words, "+")
}

// letters writes a letter for each set bit, and a dash for each other one.
func letters(bits uint8, names string) string {
	out := []byte(names)
	for i := range out {
		if bits&(1<<i) == 0 {
			out[i] = '-'
		}
	}
	return string(out)
}

// accessFor returns the export table's accesses for an Allow.
func accessFor(a Allow, at Attributes) (s shmem.Access) {
	if a&AllowWrite != 0 {
		s |= writeAccess(at)
	}
	if a&AllowRead != 0 {
		s |= shmem.AccessRead
	}
	if a&AllowLock != 0 {
		s |= shmem.AccessLock
	}
	if a&AllowNotify != 0 {
		s |= shmem.AccessNotify
	}
	return s
}

func writeAccess(at Attributes) shmem.Access {
	if at&Dmove != 0 {
		return shmem.AccessDmove
	}
	return shmem.AccessNwrite
}

// check returns what is wrong with a rule, for a segment of that many pages in a view of that many members.
func (p Pages) check(pages, members int) error {
	switch {
	case p.First < 0 || p.Count < 1 || p.First > pages-p.Count:
		return fmt.Errorf("pages %d to %d are not in a segment of %d pages", p.First, p.First+p.Count-1, pages)
	case p.Peer != Everybody && (p.Peer < 0 || p.Peer >= members):
		return fmt.Errorf("there is no rank %d in a view of %d members", p.Peer, members)
	case p.Allow&^AllowAll != 0 || p.Attributes&^attributesAll != 0:
		return fmt.Errorf("pages %d to %d have unknown accesses or attributes: %#x, %#x", p.First, p.First+p.Count-1,
			uint8(p.Allow), uint8(p.Attributes))
	}
	return nil
}

// maxRunPages keeps the windows of long runs below 4 GiB.
const maxRunPages = 1 << 19

// pageRun is a run of pages that are open to a peer in the same way: a row of an importer's table.
type pageRun struct {
	first, count int
	allow        Allow
	attributes   Attributes
	ref          shmem.Ref // the owner's window
}

// pageRunsFor returns the runs of pages that rules open to a peer, without windows yet.
func pageRunsFor(rules []Pages, peer, pages int) (runs []pageRun) {
	for first := 0; first < pages; {
		at, next := ruleAt(rules, peer, first, pages)
		if at != nil && at.Allow != 0 {
			n := len(runs)
			if n > 0 && runs[n-1].first+runs[n-1].count == first && runs[n-1].allow == at.Allow &&
				runs[n-1].attributes == at.Attributes && runs[n-1].count+next-first <= maxRunPages {
				runs[n-1].count += next - first
			} else {
				runs = append(runs, pageRun{
					first:      first,
					count:      next - first,
					allow:      at.Allow,
					attributes: at.Attributes,
				})
			}
		}
		first = next
	}
	return runs
}

// ruleAt returns the rule for a page, and the next page for which the rule may differ.
func ruleAt(rules []Pages, peer, page, pages int) (rule *Pages, next int) {
	next = min(pages, page+maxRunPages)
	for i := range rules {
		r := &rules[i]
		if r.Peer != peer && r.Peer != Everybody {
			continue
		}
		end := r.First + r.Count
		switch {
		case page < r.First:
			next = min(next, r.First)
		case page < end:
			rule, next = r, min(next, end)
		}
	}
	return rule, next
}

// pagesOf is the number of pages of size bytes.
func pagesOf(size int) int { return (size + PageSize - 1) / PageSize }
