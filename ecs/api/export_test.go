package api

import "time"

// What the tests of the package name beside what it exports.
const (
	ReasonArgument      = reasonArgument
	ReasonConfiguration = reasonConfiguration
	ReasonIdentity      = reasonIdentity
	ReasonNoRun         = reasonNoRun
	ReasonOrigin        = reasonOrigin
	ReasonRoute         = reasonRoute
	ReasonState         = reasonState
)

var Roles = leastRoleByMethod

var (
	RoleName      = roleName
	RolesMarkdown = rolesMarkdown
)

func (s *Server) SetServing(yes bool) { s.setServing(yes) }

// SetBounds makes streams few, and readers that stand still soon let go.
func (s *Server) SetBounds(streams int, bytes int64, timeout time.Duration) {
	s.limiter.maxStreams, s.limiter.maxBytes, s.stallTimeout = streams, bytes, timeout
}

// Open is how many streams are open.
func (s *Server) Open() int {
	s.limiter.mu.Lock()
	defer s.limiter.mu.Unlock()
	return s.limiter.total.streams
}
