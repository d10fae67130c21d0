package api

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
