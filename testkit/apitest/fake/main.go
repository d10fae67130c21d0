package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"ringlet/ecs/api"
	"ringlet/node/certs"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
	"ringlet/testkit/apitest"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "fake:", err)
		os.Exit(1)
	}
}

func run() error {
	page := flag.String("page", "127.0.0.1:7980", "address of HTTP")
	rpc := flag.String("api", "127.0.0.1:7947", "address of gRPC")
	keys := flag.String("keys", "", "directory for keys; empty: none are written, and gRPC cannot be entered")
	nodes := flag.Int("nodes", 4, "nodes of the partition")
	dwell := flag.Duration("dwell", 400*time.Millisecond, "how long a transition takes")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	id, err := identity(*keys)
	if err != nil {
		return err
	}
	fake := apitest.New(apitest.Options{
		Nodes:        *nodes,
		Dwell:        *dwell,
		WithPastRuns: true,
		Begin:        time.Now().UTC(),
	})
	defer fake.Close()
	server, err := api.New(api.Config{
		Backend:  fake,
		Records:  fake,
		Journal:  fake,
		Identity: id,
		APIAddr:  *rpc,
		PageAddr: *page,
	})
	if err != nil {
		return err
	}
	server.Handle("POST /fake/lose", ecsv1.Role_ROLE_ADMIN, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		fake.Lose(r.URL.Query().Get("node"))
	}))
	if err := mount(server); err != nil {
		return err
	}
	fmt.Println("gRPC", server.APIAddr())
	fmt.Println("page", server.NewEntrance())
	go fake.Live(ctx)
	return server.Serve(ctx)
}

// identity returns the control's identity; with a directory, it also writes those of users there.
func identity(dir string) (*certs.Identity, error) {
	ca, err := certs.NewCA(0)
	if dir != "" {
		if old, loadErr := certs.LoadCA(dir); loadErr == nil {
			ca = old
		} else if !errors.Is(loadErr, fs.ErrNotExist) {
			return nil, loadErr
		} else if err == nil {
			err = ca.Save(dir)
		}
	}
	if err != nil {
		return nil, err
	}
	for name, role := range map[string]certs.Role{
		"vera": certs.RoleViewer, "alice": certs.RoleOperator, "bob": certs.RoleOperator, "ada": certs.RoleAdmin,
	} {
		id, err := ca.Issue(name, nil, role, 0)
		if err == nil && dir != "" {
			err = id.Save(dir)
		}
		if err != nil {
			return nil, err
		}
	}
	id, err := ca.Issue("control", []string{"127.0.0.1", "localhost"}, certs.RoleControl, 0)
	if err == nil && dir != "" {
		err = id.Save(dir)
	}
	return id, err
}
