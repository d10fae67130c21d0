package main

import "ringlet/ecs/api"

// mount adds the page, as `ringlet control` does.
func mount(*api.Server) {}
