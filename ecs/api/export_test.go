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

var Roles = roles

var (
	RoleName      = roleName
	RolesMarkdown = rolesMarkdown
)

func (s *Server) SetServing(yes bool) { s.setServing(yes) }

// SetBounds makes streams few, and readers that stand still soon let go.
func (s *Server) SetBounds(streams int, bytes int64, stand time.Duration) {
	s.room.streams, s.room.bytes, s.stand = streams, bytes, stand
}

// Open is how many streams are open.
func (s *Server) Open() int {
	s.room.mu.Lock()
	defer s.room.mu.Unlock()
	return s.room.all.streams
}
