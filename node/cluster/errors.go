package cluster

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
)

// JoinReason says why a node was not let in. Each has a text that serves as the name of a counter.
type JoinReason string

// The reasons.
const (
	Unreachable   JoinReason = "unreachable"    // nobody answered
	WrongKey      JoinReason = "wrong_key"      // the gossip keys differ
	OtherProtocol JoinReason = "other_protocol" // the cluster speaks another version
	BadMeta       JoinReason = "bad_meta"       // a member says of itself what cannot be read
	NameTaken     JoinReason = "name_taken"     // another node has this name
	Unconfirmed   JoinReason = "unconfirmed"    // who answers does not list this node
)

// JoinError says that a node did not enter a cluster.
type JoinError struct {
	Name  string
	Join  []string // who was asked
	Why   JoinReason
	Cause error
}

func (e *JoinError) Error() string {
	what := map[JoinReason]string{
		Unreachable:   "nobody answers",
		WrongKey:      "its gossip key is not this node's",
		OtherProtocol: "it is of another version",
		BadMeta:       "a member of it cannot be understood",
		NameTaken:     "the name is taken",
		Unconfirmed:   "it answers and does not let this node in, its log may say why",
	}[e.Why]
	return fmt.Sprintf("%s cannot join the cluster at %s: %s (%v)", e.Name, strings.Join(e.Join, ", "), what, e.Cause)
}

var errUnlisted = errors.New("not in its list of members")

// Unwrap gives what gossip said.
func (e *JoinError) Unwrap() error { return e.Cause }

// refusal judges the outcome of a try to join; nil means that the node is in. The caller holds mu.
func (c *Cluster) refusal(err error) *JoinError {
	out := &JoinError{Name: c.cfg.Name, Join: c.cfg.Join, Why: Unreachable, Cause: err}
	switch {
	case c.taken != nil:
		out.Why, out.Cause = NameTaken, c.taken
	case err == nil && c.confirmed:
		return nil
	case err == nil:
		out.Why, out.Cause = Unconfirmed, errUnlisted
	// memberlist keeps the text of a refusal and loses its type.
	case c.mergeErr != nil && strings.Contains(err.Error(), c.mergeErr.Error()):
		out.Why, out.Cause = BadMeta, c.mergeErr
		if errors.Is(c.mergeErr, ErrProtocol) {
			out.Why = OtherProtocol
		}
	case strings.Contains(err.Error(), textNoKey):
		out.Why = WrongKey
	}
	return out
}

// MissingError says who did not come.
type MissingError struct {
	Names []string // in order of rank, never empty
	Cause error    // why the waiting ended
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("still waiting for %s to join the cluster: %v", strings.Join(e.Names, ", "), e.Cause)
}

// Unwrap gives why the waiting ended.
func (e *MissingError) Unwrap() error { return e.Cause }

// Counters says how much gossip was refused, for each reason. A node that is refused tries again, and each try counts.
type Counters struct {
	WrongKey       atomic.Uint64 `help:"packets and connections that this cluster's key does not open"`
	OtherProtocol  atomic.Uint64 `help:"announcements of nodes of another version"`
	BadMeta        atomic.Uint64 `help:"announcements whose metadata cannot be read"`
	NameConflicts  atomic.Uint64 `help:"announcements of a second node under a member's name"`
	BadMessages    atomic.Uint64 `help:"messages of members that cannot be read"`
	StreamsRefused atomic.Uint64 `help:"connections that were closed at once, because too many were open"`
}

// Sum is how much was refused, for whatever reason.
func (c *Counters) Sum() (n uint64) {
	for _, why := range [...]*atomic.Uint64{
		&c.WrongKey, &c.OtherProtocol, &c.BadMeta, &c.NameConflicts, &c.BadMessages, &c.StreamsRefused,
	} {
		n += why.Load()
	}
	return n
}
