package nodes

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"ringlet/node/config"
	nodev1 "ringlet/proto/ringlet/node/v1"
)

// writing is a node that says whether it can write an output.
type writing struct {
	nodev1.NodeClient
	says *nodev1.CheckOutputResponse // nil: nothing
}

func (w writing) CheckOutput(
	context.Context, *nodev1.CheckOutputRequest, ...grpc.CallOption,
) (*nodev1.CheckOutputResponse, error) {
	if w.says == nil {
		return nil, errors.New("its disk does not answer")
	}
	return w.says, nil
}

// Nodes with builder units, and nobody else, are asked whether they can write: each that cannot is named, the highest
// number counts, and those with little room are told in their order.
func TestCheckOutput(t *testing.T) {
	cfg := config.Completed{Config: config.Default()}
	cfg.Output = t.TempDir() + "/"
	if err := cfg.Complete(); err != nil {
		t.Fatal(err)
	}
	c := NewNodeSet(Options{}, cfg)
	nodes := map[string]*nodev1.CheckOutputResponse{
		"n1": {LastRun: 7, Warning: "1 GB is free"}, "n2": {LastRun: 9}, "n3": {Warning: "2 GB are free"},
	}
	for _, name := range []string{"n0", "n1", "n2", "n3"} {
		c.nodes = append(c.nodes, &member{
			name:       name,
			client:     writing{says: nodes[name]},
			firstEntry: &nodev1.Member{Name: name, Builder: name != "n0"},
			faults:     c.faults,
		})
	}
	last, short, err := c.CheckOutput(t.Context(), 0)
	if want := []string{"on n1: 1 GB is free", "on n3: 2 GB are free"}; last != 9 || !slices.Equal(short, want) ||
		err != nil {
		t.Errorf("%d, %q, %v", last, short, err)
	}
	c.nodes[1].client, c.nodes[2].client = writing{}, writing{says: &nodev1.CheckOutputResponse{Problem: "it is full"}}
	_, _, err = c.CheckOutput(t.Context(), 0)
	if err == nil || !strings.Contains(err.Error(), "on n1: it cannot say") ||
		!strings.Contains(err.Error(), "on n2: it is full") || strings.Contains(err.Error(), "n3") {
		t.Error(err)
	}
}
