package cluster

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
)

// joinReason says why a node could not join. Each has a text that serves as the name of a counter.
type joinReason string

// The reasons.
const (
	joinUnreachable joinReason = "unreachable"    // no member answered
	wrongKey        joinReason = "wrong_key"      // the gossip keys differ
	otherProtocol   joinReason = "other_protocol" // the cluster has another protocol version
	badMeta         joinReason = "bad_meta"       // the metadata of a member cannot be read
	nameTaken       joinReason = "name_taken"     // another node has this name
	joinUnconfirmed joinReason = "unconfirmed"    // a member answers but does not list this node
)

// joinError says that a node did not enter a cluster, and why.
type joinError struct {
	Name  string
	Join  []string // addresses that were tried
	Why   joinReason
	Cause error
}

func (e *joinError) Error() string {
	what := map[joinReason]string{
		joinUnreachable: "no member answers",
		wrongKey:        "its gossip key is not this node's",
		otherProtocol:   "it is of another version",
		badMeta:         "the metadata of a member cannot be read",
		nameTaken:       "the name is taken",
		joinUnconfirmed: "a member answers but does not list this node, its log may say why",
	}[e.Why]
	return fmt.Sprintf("%s cannot join the cluster at %s: %s (%v)", e.Name, strings.Join(e.Join, ", "), what, e.Cause)
}

var errUnlisted = errors.New("not in its list of members")

// Unwrap returns the error of gossip.
func (e *joinError) Unwrap() error { return e.Cause }

// joinOutcome judges the outcome of a try to join; nil means that the node is a member. mu is held.
func (c *Cluster) joinOutcome(err error) *joinError {
	out := &joinError{
		Name:  c.cfg.Name,
		Join:  c.cfg.Join,
		Why:   joinUnreachable,
		Cause: err,
	}
	switch {
	case c.nameConflict != nil:
		out.Why, out.Cause = nameTaken, c.nameConflict
	case err == nil && c.joinConfirmed:
		return nil
	case err == nil:
		out.Why, out.Cause = joinUnconfirmed, errUnlisted
	// memberlist keeps the text of a refusal and loses its type.
	case c.mergeErr != nil && strings.Contains(err.Error(), c.mergeErr.Error()):
		out.Why, out.Cause = badMeta, c.mergeErr
		if errors.Is(c.mergeErr, errProtocol) {
			out.Why = otherProtocol
		}
	case strings.Contains(err.Error(), textNoKey):
		out.Why = wrongKey
	}
	return out
}

// missingError names the nodes that have not joined.
type missingError struct {
	Names []string // in order of rank, never empty
	Cause error    // why the waiting ended
}

func (e *missingError) Error() string {
	return fmt.Sprintf("still waiting for %s to join the cluster: %v", strings.Join(e.Names, ", "), e.Cause)
}

// Unwrap returns why the waiting ended.
func (e *missingError) Unwrap() error { return e.Cause }

// Counters counts refused gossip by reason. A refused node tries again, and each try counts.
type Counters struct {
	WrongKey       atomic.Uint64 `help:"packets and connections that this cluster's key does not open"`
	OtherProtocol  atomic.Uint64 `help:"announcements of nodes of another version"`
	BadMeta        atomic.Uint64 `help:"announcements whose metadata cannot be read"`
	NameConflicts  atomic.Uint64 `help:"announcements of a second node under a member's name"`
	BadMessages    atomic.Uint64 `help:"messages of members that cannot be read"`
	StreamsRefused atomic.Uint64 `help:"connections closed: too many were open"`
}

// Sum is the number of all refusals.
func (c *Counters) Sum() (n uint64) {
	for _, why := range [...]*atomic.Uint64{
		&c.WrongKey, &c.OtherProtocol, &c.BadMeta, &c.NameConflicts, &c.BadMessages, &c.StreamsRefused,
	} {
		n += why.Load()
	}
	return n
}
