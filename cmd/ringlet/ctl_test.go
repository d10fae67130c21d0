package main

import (
	"context"
	"log/slog"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"ringlet/ecs/api"
	"ringlet/node/certs"
	"ringlet/testkit/apitest"
	"ringlet/testkit/patiently"
)

// TestCtlScripts plays testdata/ctl: sessions with a control over a made-up partition of two nodes, as the user
// alice, an operator, with keys for vera, a viewer, and ada, an admin, beside hers.
func TestCtlScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/ctl",
		Setup: func(env *testscript.Env) error {
			keys := env.WorkDir + "/keys"
			ca, err := certs.NewCA(0)
			if err != nil {
				return err
			}
			for name, role := range map[string]certs.Role{
				"alice": certs.RoleOperator, "vera": certs.RoleViewer, "ada": certs.RoleAdmin,
			} {
				id, err := ca.Issue(name, nil, role, 0)
				if err == nil {
					err = id.Save(keys)
				}
				if err != nil {
					return err
				}
			}
			id, err := ca.Issue("control", []string{loopback}, certs.RoleControl, 0)
			if err != nil {
				return err
			}
			fake := apitest.New(apitest.Options{Nodes: 2, WithPastRuns: true})
			server, err := api.New(api.Config{
				Backend:  fake,
				Records:  fake,
				Journal:  fake,
				Identity: id,
				APIAddr:  loopback + ":0",
				Log:      slog.New(slog.DiscardHandler),
			})
			if err != nil {
				return err
			}
			ctx, cancel := context.WithCancel(context.Background())
			served := make(chan error, 1)
			go func() { served <- server.Serve(ctx) }()
			env.Defer(func() {
				cancel()
				if err := patiently.Receive(t, served); err != nil {
					t.Error(err)
				}
				fake.Close()
			})
			env.Setenv("RINGLET_CONTROL", server.APIAddr().String())
			env.Setenv("RINGLET_CERTS", keys)
			env.Setenv("RINGLET_USER", "alice")
			env.Setenv("GORACE", raceAtOnce)
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"ends": cmdEnds, "holds": cmdHolds},
	})
}
