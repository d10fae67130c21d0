package livetest

import (
	"context"
	"fmt"

	"ringlet/internal/registry"
	"ringlet/source"
	"ringlet/source/live"
)

// Name is the name of the kind that NewRow makes: an input is "fake:" and the name of a feed.
const Name = "fake"

// NewRow is a kind of source whose inputs are the feeds of a test; find returns a feed by its name, or nil.
func NewRow(find func(name string) *Feed) source.InputKind {
	return source.InputKind{
		Kind:     registry.Kind{Name: Name, Help: "played by a test"},
		Counter:  true,
		HasWords: true,
		Feed: func(_ context.Context, s live.FeedSettings) (live.Feed, error) {
			f := find(s.Address)
			if f == nil {
				return nil, fmt.Errorf("the test plays no feed %q", s.Address)
			}
			f.Settings = s
			return f, nil
		},
	}
}
