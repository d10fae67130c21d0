package tagnet

import "sync"

// substitutes are the nodes that have the units of others. Its methods may be called from any goroutine.
type substitutes struct {
	mu       sync.Mutex        // guards byMember
	byMember map[string]string // the substitute of a member
}

// set records the substitute of a member; an empty one ends that.
func (s *substitutes) set(member, substitute string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byMember == nil {
		s.byMember = map[string]string{}
	}
	s.byMember[member] = substitute
	if substitute == "" || substitute == member {
		delete(s.byMember, member)
	}
}

// memberOf is the member whose units a node has: the one that it substitutes for, else itself. It is empty if another
// node substitutes for it.
func (s *substitutes) memberOf(node string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for member, by := range s.byMember {
		if by == node {
			return member
		}
	}
	if s.byMember[node] != "" {
		return ""
	}
	return node
}
