package tagnet

import (
	"cmp"
	"context"
	"time"

	"google.golang.org/grpc"

	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
	"ringlet/tagnet/core"
)

// The client's part in the loss of its scheduler: it goes on with the successor, and says what it knows
// (core/recall.go).

// SetResumeTimeout sets how long the session tries to resume after its stream broke, in place of DefaultResumeTimeout:
// the scheduler's own time, or longer where a control may make a successor of a lost scheduler.
func (c *clientSession) SetResumeTimeout(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.resumeTimeout = d
}

// MoveTo has the session go on with the successor of its lost scheduler, at that address. The unit tells it what it
// knows. moved is false if the session is over.
func (c *clientSession) MoveTo(target string, opts ...grpc.DialOption) (moved bool, err error) {
	conn, err := newConn(target, opts)
	if err != nil {
		return false, err
	}
	if moved = c.moveTo(conn); !moved {
		return false, conn.Close()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.successorConns = append(c.successorConns, conn)
	return true, nil
}

// moveTo is MoveTo over a connection that the caller keeps.
func (c *clientSession) moveTo(successor grpc.ClientConnInterface) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return false
	}
	c.successor = successor
	if c.cut != nil {
		c.cut()
	}
	return true
}

// takeSuccessor goes on with the successor that MoveTo has named. It tells whether there is one.
func (c *clientSession) takeSuccessor(s streamHandler) bool {
	c.mu.Lock()
	conn := c.successor
	c.successor = nil
	c.mu.Unlock()
	if conn != nil {
		s.setService(tagnetv1.NewTagNetClient(conn))
		c.term, c.next, c.recalls = 0, 0, true
	}
	return conn != nil
}

// setCut sets how the present stream is cut. It is cut at once if a successor waits.
func (c *clientSession) setCut(cut context.CancelFunc) (timeout time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut = cut; c.successor != nil && cut != nil {
		cut()
	}
	return cmp.Or(c.resumeTimeout, DefaultResumeTimeout)
}

// isNotThereYet tells that a host has refused a unit since it does not have the successor yet.
func isNotThereYet(err error) bool {
	info := refusalInfo(err)
	return info != nil && info.GetReason() == reasonOf(core.RefusedNoView)
}
