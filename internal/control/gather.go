package control

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"ringlet/internal/certs"
	"ringlet/internal/cluster"
	"ringlet/internal/config"
	nodev1 "ringlet/proto/ringlet/node/v1"
)

// gather finds the nodes, or makes them, and connects to them.
func (r *run) gather(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Patience)
	defer cancel()
	var names []string
	if r.cfg.Spawner != nil {
		for _, role := range r.cfg.Run.Roles() {
			names = append(names, role.Name)
		}
		err := r.cfg.Spawner.Spawn(names, r.members.Addr().String(), func(name, how string) {
			r.faults.add(Fault{Component: name, What: "its process " + how, Evidence: "seen by the control", rank: rankProcess})
		})
		if err != nil {
			return err
		}
	} else {
		r.log.Info("waiting for nodes", "wanted", r.cfg.Run.Nodes, "join", r.members.Addr())
		var err error
		if names, err = r.await(ctx); err != nil {
			return err
		}
	}
	waited, stop := r.faults.during(ctx)
	defer stop()
	if err := r.members.Wait(waited, names...); err != nil {
		return err
	}
	if err := r.meet(names); err != nil {
		return err
	}
	return r.greet(waited)
}

// greet speaks with every node for the first time, so that one that must not be spoken with is found and named at once.
func (r *run) greet(ctx context.Context) error {
	errs := make([]error, len(r.nodes))
	var wg sync.WaitGroup
	for i, n := range r.nodes {
		wg.Go(func() {
			errs[i] = n.greet(ctx)
			n.silent.Store(errs[i] != nil)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// greet tries until the node answers; a refusal, by either side, ends it.
func (m *member) greet(ctx context.Context) error {
	for {
		_, err := m.client.Report(ctx, &nodev1.ReportRequest{})
		if err == nil {
			return nil
		}
		var refused *certs.RefusedError
		if why := certs.Explain(errors.New(status.Convert(err).Message())); errors.As(why, &refused) {
			return m.unreachable(": " + why.Error())
		}
		select {
		case <-ctx.Done():
			return m.unreachable(" does not answer: " + status.Convert(err).Message())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (m *member) unreachable(why string) error {
	return &FaultError{Fault{
		Component: m.name, What: "its node service at " + m.view.GetGrpcAddress() + why, Evidence: "seen by the control",
	}}
}

// await waits until enough nodes are there, and takes the first by rank.
func (r *run) await(ctx context.Context) ([]string, error) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		var names []string
		for _, m := range r.members.Members() {
			if m.Meta.Roles.Has(cluster.Readout) || m.Meta.Roles.Has(cluster.Builder) {
				names = append(names, m.Name)
			}
		}
		if len(names) >= r.cfg.Run.Nodes {
			return names[:r.cfg.Run.Nodes], nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("%d nodes are wanted, and only %d have joined at %s: %s (%w)", r.cfg.Run.Nodes, len(names),
				r.members.Addr(), strings.Join(names, ", "), context.Cause(ctx))
		}
	}
}

// meet connects to the node services, in order of rank.
func (r *run) meet(names []string) error {
	known := map[string]cluster.Member{}
	for _, m := range r.members.Members() {
		known[m.Name] = m
	}
	for rank, role := range r.cfg.Run.Roles() {
		m, ok := known[names[rank]]
		if !ok {
			return fmt.Errorf("%s has left again", names[rank])
		}
		conn, err := grpc.NewClient(m.Meta.GRPCAddr,
			grpc.WithTransportCredentials(credentials.NewTLS(r.cfg.Identity.Client(m.Name))))
		if err != nil {
			return fmt.Errorf("node service of %s at %s: %w", m.Name, m.Meta.GRPCAddr, err)
		}
		r.nodes = append(r.nodes, &member{
			name: m.Name, conn: conn, client: nodev1.NewNodeClient(conn),
			view: &nodev1.Member{
				Name: m.Name, Rank: uint32(rank), QuicAddress: m.Meta.QUICAddr, GrpcAddress: m.Meta.GRPCAddr,
				Readout: role.RU != config.None, RuIndex: uint32(max(0, role.RU)),
				Builder: role.BU != config.None, BuIndex: uint32(max(0, role.BU)),
			},
		})
	}
	return nil
}
