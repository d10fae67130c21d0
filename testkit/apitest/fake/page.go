package main

import (
	"ringlet/ecs/api"
	"ringlet/ecs/page"
	"ringlet/node"
	"ringlet/velo/display"
)

// mount adds the page, as `ringlet control` does. The page itself is not secret; it asks the user for the token.
func mount(s *api.Server) error {
	s.Handle("/", api.Everybody, page.Handler(node.Counters()))
	drawn, err := display.Handler(display.Config{Truth: func(uint32, uint64) (display.Truth, bool) {
		return display.Truth{Displaced: true,
			Vertices: []display.Point{{Kind: "collision"}, {Kind: "beauty", X: 0.4, Z: 9}}}, true
	}})
	if err == nil {
		s.Handle(display.Path, api.Viewer, drawn)
	}
	return err
}
