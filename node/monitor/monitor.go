package monitor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"ringlet/internal/connlimit"
)

// requestTimeout bounds how long a monitor may take to send its request, and how long this process may take to check
// itself.
const requestTimeout = 5 * time.Second

const (
	// idleTimeout is how long a monitor may keep a connection between two requests: Prometheus scrapes once a minute at
	// the latest.
	idleTimeout    = 2 * time.Minute
	maxConns       = 64
	maxHeaderBytes = 16 << 10
)

// Process is the checks that a monitor may request.
type Process struct {
	CheckLive      func(context.Context) error    // why the process should be restarted; nil: it is alive
	CheckReady     func() (state string, _ error) // its state, and why it cannot be used; nil: it can
	MetricsHandler http.Handler                   // nil: there are none
}

// Serve serves monitors at lis until the function that it returns is called.
func Serve(lis net.Listener, p Process, log *slog.Logger) (end func()) {
	server := &http.Server{
		Handler:           p.Handler(),
		ReadHeaderTimeout: requestTimeout,
		ReadTimeout:       2 * requestTimeout,
		WriteTimeout:      4 * requestTimeout, // the handler must find the answer first
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ConnState:         connlimit.YieldBetweenRequests,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug), // errors of strangers' requests
	}
	gate := &connlimit.Gate{MaxTotal: maxConns, MaxPerHost: maxConns / 2}
	guarded := connlimit.ListenWith(lis, gate, log.With("service", "monitor"))
	log.Info("may be monitored", "http", lis.Addr())
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := server.Serve(guarded); !errors.Is(err, http.ErrServerClosed) {
			log.Error("this process cannot answer a monitor any more", "err", err)
		}
	}()
	return func() {
		_ = server.Close() // no request is worth waiting for
		<-served
	}
}

// Handler handles the requests of monitors.
func (p *Process) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
		defer cancel()
		writeAnswer(w, "alive", p.CheckLive(ctx))
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		state, err := p.CheckReady()
		writeAnswer(w, state, err)
	})
	if p.MetricsHandler != nil {
		mux.Handle("GET /metrics", p.MetricsHandler)
	}
	return mux
}

// writeAnswer writes the state, or the error, in one line.
func writeAnswer(w http.ResponseWriter, well string, err error) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		well = err.Error()
	}
	_, _ = fmt.Fprintln(w, well) // the client may have left
}
