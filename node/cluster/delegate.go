package cluster

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/hashicorp/memberlist"
)

// delegate is the Cluster in the form that memberlist calls. memberlist calls the methods on members with its lock
// held, so they must not block.
type delegate Cluster

// NodeMeta is memberlist's Delegate.
func (d *delegate) NodeMeta(int) []byte { return d.meta }

// GetBroadcasts is memberlist's Delegate; this package broadcasts nothing.
func (d *delegate) GetBroadcasts(int, int) [][]byte { return nil }

// LocalState is memberlist's Delegate; there is no state beyond the metadata.
func (d *delegate) LocalState(bool) []byte { return nil }

// MergeRemoteState is memberlist's Delegate.
func (d *delegate) MergeRemoteState([]byte, bool) {}

// NotifyMsg is memberlist's Delegate: a message of another member, see leave.go.
func (d *delegate) NotifyMsg(b []byte) { (*Cluster)(d).handleMessage(b) }

// NotifyAlive is memberlist's AliveDelegate: it refuses a node whose metadata cannot be used.
func (d *delegate) NotifyAlive(n *memberlist.Node) error {
	if n.Name == d.cfg.Name {
		return nil // this node, or another one with its name: NotifyConflict handles that
	}
	return d.checkMeta(n)
}

// checkMeta checks a node's metadata, and counts what is wrong.
func (d *delegate) checkMeta(n *memberlist.Node) error {
	_, err := decodeMeta(n.Meta, d.cfg.Meta.Protocol)
	switch {
	case errors.Is(err, errProtocol):
		d.counters.OtherProtocol.Add(1)
	case err != nil:
		d.counters.BadMeta.Add(1)
	default:
		return nil
	}
	return fmt.Errorf("%s at %s: %w", n.Name, n.Address(), err)
}

// NotifyMerge is memberlist's MergeDelegate: it refuses a cluster with another protocol version. It also learns which
// node a peer lists under this node's name.
func (d *delegate) NotifyMerge(peers []*memberlist.Node) error {
	for _, n := range peers {
		if n.Name == d.cfg.Name {
			d.noteListed(n)
			continue
		}
		if n.State != memberlist.StateAlive {
			continue
		}
		if err := d.checkMeta(n); err != nil {
			d.mu.Lock()
			d.mergeErr = err
			d.mu.Unlock()
			return err
		}
	}
	return nil
}

// noteListed notes which node a member lists under this node's name: this one, or another that is alive or not failed
// yet.
func (d *delegate) noteListed(n *memberlist.Node) {
	if n.State != memberlist.StateAlive && n.State != memberlist.StateSuspect {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if addrOf(n) == d.members[n.Name].Addr {
		d.joinConfirmed = true
	} else {
		d.nameConflict = fmt.Errorf("%s is the name of a node at %s", n.Name, n.Address())
	}
}

// NotifyConflict is memberlist's ConflictDelegate: two nodes have one name. The first one stays.
func (d *delegate) NotifyConflict(existing, other *memberlist.Node) {
	d.counters.NameConflicts.Add(1)
	if unreported, yes := d.logLimiter.Allow("name "+existing.Name, time.Now()); yes {
		d.log.Warn("two nodes under one name", "name", existing.Name, "here", existing.Address(), "there", other.Address(),
			"unreported", unreported)
	}
	if existing.Name != d.cfg.Name {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.nameConflict = fmt.Errorf("%s is the name of a node at %s", other.Name, other.Address())
}

// NotifyJoin is memberlist's EventDelegate.
func (d *delegate) NotifyJoin(n *memberlist.Node) { d.noteMember(memberJoined, n) }

// NotifyUpdate is memberlist's EventDelegate.
func (d *delegate) NotifyUpdate(n *memberlist.Node) { d.noteMember(memberChanged, n) }

func (d *delegate) noteMember(kind EventKind, n *memberlist.Node) {
	meta, err := decodeMeta(n.Meta, d.cfg.Meta.Protocol)
	if err != nil && n.Name != d.cfg.Name {
		return // not reached: NotifyAlive has refused and counted it
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	m := Member{Name: n.Name, Addr: addrOf(n), Meta: meta}
	d.members[n.Name] = m
	delete(d.leavingMembers, n.Name)
	(*Cluster)(d).enqueue(Event{Kind: kind, Member: m})
}

func addrOf(n *memberlist.Node) netip.AddrPort {
	addr, _ := netip.AddrFromSlice(n.Addr)
	return netip.AddrPortFrom(addr.Unmap(), n.Port)
}

// NotifyLeave is memberlist's EventDelegate. It does not say whether the node left or failed; leavingMembers does.
func (d *delegate) NotifyLeave(n *memberlist.Node) {
	d.mu.Lock()
	defer d.mu.Unlock()
	m, ok := d.members[n.Name]
	if !ok {
		return
	}
	kind := memberFailed
	if d.leavingMembers[n.Name] {
		kind = memberWithdrawn
	}
	delete(d.members, n.Name)
	delete(d.leavingMembers, n.Name)
	(*Cluster)(d).enqueue(Event{Kind: kind, Member: m})
}
