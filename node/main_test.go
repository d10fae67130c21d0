package node_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/encoding/protojson"

	"ringlet/node"
	"ringlet/node/certs"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/tagnet"
	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
)

// A probe that memberlist has under way when it is shut down waits for its answer as long as it would have otherwise,
// half a second here, and offers no way to be told; then it ends by itself.
func TestMain(m *testing.M) {
	if what := os.Getenv(node.TestControl); what != "" {
		if err := beControl(what); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	must.LimitParallel(8, 2)
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/hashicorp/memberlist.(*Memberlist).probeNode"))
}

// beControl is a control in a process of its own, which takes nodes into a run, says so, and watches until it is killed
// or its parent is gone.
func beControl(what string) error {
	var todo node.TestRun
	if err := json.Unmarshal([]byte(what), &todo); err != nil {
		return err
	}
	req := &nodev1.CommandRequest{}
	if err := protojson.Unmarshal(todo.Request, req); err != nil {
		return err
	}
	id, _, err := certs.ReadBundle(os.Stdin)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patiently.LongTimeout)
	defer cancel()
	var nodes []nodev1.NodeClient
	for i, m := range req.GetView().GetMembers() {
		conn, err := grpc.NewClient(m.GetGrpcAddress(),
			grpc.WithTransportCredentials(credentials.NewTLS(id.Client(m.GetName()))))
		if err != nil {
			return err
		}
		if i == 0 {
			scope := tagnet.Scope{Run: req.GetRun(), View: req.GetView().GetNumber(), Name: node.ControlName}
			wait := tagnet.UnitTimeouts{Attach: time.Minute}
			if err := tagnet.BeginScheduler(ctx, conn, scope, todo.Scheduler, wait); err != nil {
				return err
			}
		}
		client := nodev1.NewNodeClient(conn)
		watch, err := client.Watch(ctx, &nodev1.WatchRequest{IntervalMs: 20})
		if err != nil {
			return err
		}
		go func() {
			for err := error(nil); err == nil; _, err = watch.Recv() {
			}
		}()
		nodes = append(nodes, client)
	}
	for _, c := range []nodev1.Command{
		nodev1.Command_COMMAND_LOAD, nodev1.Command_COMMAND_CONFIGURE, nodev1.Command_COMMAND_START,
	} {
		req.Command = c
		g, ctx := errgroup.WithContext(ctx)
		for _, n := range nodes {
			g.Go(func() error {
				_, err := n.Command(ctx, req)
				return err
			})
		}
		if err := g.Wait(); err != nil { // bounded by the test, which ends this process
			return err
		}
	}
	fmt.Println("running")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return errors.New("the parent is gone")
}
