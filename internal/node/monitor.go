package node

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"ringlet/ecs/fsm"
	"ringlet/internal/cluster"
	nodev1 "ringlet/proto/ringlet/node/v1"
)

// monitorPatience bounds how long whoever monitors may take to ask, and how long this node may take to answer itself.
const monitorPatience = 5 * time.Second

// monitor serves the state of this node to whoever watches over processes: /livez, /readyz, and /metrics where the configuration has
// them. It is plain HTTP, tells nothing but the state, and takes no commands. What it returns ends it.
func (n *Node) monitor() (end func()) {
	if n.cfg.Monitor == nil {
		return func() {}
	}
	server := &http.Server{Handler: n.monitorHandler(), ReadHeaderTimeout: monitorPatience}
	n.log.Info("may be monitored", "http", n.cfg.Monitor.Addr())
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := server.Serve(n.cfg.Monitor); !errors.Is(err, http.ErrServerClosed) {
			n.log.Error("nobody can monitor this node any more", "err", err)
		}
	}()
	return func() {
		_ = server.Close() // it has nothing to lose
		<-served
	}
}

func (n *Node) monitorHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), monitorPatience)
		defer cancel()
		answer(w, n.alive(ctx, n.members.Load()), "alive")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		st := n.runner.Status()
		answer(w, ready(n.members.Load(), st), st.State.String())
	})
	if n.cfg.Metrics != nil {
		mux.Handle("GET /metrics", n.cfg.Metrics(func() *nodev1.Report { return n.report(0) }))
	}
	return mux
}

// ready says why a node cannot be used. One in the cluster can, unless it is in Error.
func ready(members *cluster.Cluster, st fsm.Status) error {
	switch {
	case members == nil:
		return errNotIn
	case st.State == fsm.Error:
		return fmt.Errorf("in Error: %w", st.Cause)
	}
	return nil
}

var errNotIn = errors.New("not in the cluster: looking for it, or on the way out")

// answer says in one line how it stands.
func answer(w http.ResponseWriter, err error, well string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		well = err.Error()
	}
	_, _ = fmt.Fprintln(w, well) // who asked may have left
}
