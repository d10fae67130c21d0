package main

import (
	"ringlet/ecs/api"
	"ringlet/ecs/page"
	"ringlet/node"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// mount adds the page, as `ringlet control` does. It holds nothing secret, and asks for the token itself.
func mount(s *api.Server) { s.Handle("/", ecsv1.Role_ROLE_UNSPECIFIED, page.Handler(node.Counters())) }
