package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"ringlet/internal/address"
	"ringlet/internal/connlimit"
	"ringlet/node/certs"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// Config of a Server.
type Config struct {
	Backend  Backend
	Records  Records
	Journal  Journal
	Identity *certs.Identity // of the control
	// APIAddr is the address of the gRPC service.
	APIAddr string
	// PageAddr is the address of HTTP; empty: no HTTP. On loopback it is plain HTTP, and users sign in with a one-time
	// token; elsewhere it is HTTPS, and users have client certificates.
	PageAddr string
	// OnEntered is called when a token was used, with the address and a new token for the next session. Nil: an admin
	// must ask for a new token.
	OnEntered func(entrance string)
	// MaxStreams bounds the open streams; one user may have a quarter of them. 0 is DefaultStreams.
	MaxStreams int
	Log        *slog.Logger // nil: slog.Default
}

// A Server serves the run control's API and page.
type Server struct {
	// immutable
	log          *slog.Logger
	now          func() time.Time
	onEntered    func(entrance string) // or nil
	records      Records
	journal      Journal
	service      *service
	audit        *auditor
	grpcServer   *grpc.Server
	health       *health.Server
	apiListener  net.Listener
	pageListener net.Listener // nil: no HTTP
	httpServer   *http.Server
	apiMux       *http.ServeMux // the API, below callPath and at documentPath
	handlerMux   *http.ServeMux // the handlers given to Handle
	servesHTTPS  bool           // HTTP is HTTPS
	limiter      streamLimiter
	conns        *openConns           // connections of gRPC
	stallTimeout time.Duration        // how long a reader may not read
	logLimiter   connlimit.LogLimiter // of stalled readers

	servingContext context.Context // ends when Serve does
	stopServing    context.CancelFunc

	sessions sessions
	saveMu   sync.Mutex // held while the state is saved, so that the newest write is the last
}

const (
	// maxRequest bounds a message that a client sends.
	maxRequest = maxBody
	// handshakeTimeout bounds a TLS handshake and the header of a request.
	handshakeTimeout = 10 * time.Second
	// shutdownTimeout bounds how long calls may take to finish when the server ends.
	shutdownTimeout = 2 * time.Second
)

// New makes a Server and binds its addresses. The caller must Serve or Close it.
func New(cfg Config) (*Server, error) {
	s := &Server{
		log:          cfg.Log,
		now:          time.Now,
		onEntered:    cfg.OnEntered,
		records:      cfg.Records,
		journal:      cfg.Journal,
		apiMux:       http.NewServeMux(),
		handlerMux:   http.NewServeMux(),
		limiter:      streamLimiter{maxStreams: cfg.MaxStreams, maxBytes: maxBytesUnderWay},
		conns:        &openConns{},
		stallTimeout: stallTimeout,
	}
	if cfg.MaxStreams == 0 {
		s.limiter.maxStreams = DefaultStreams
	}
	if s.limiter.maxStreams < 0 || s.limiter.maxStreams > MaxStreams {
		return nil, fmt.Errorf("%d streams are not from 1 to %d: correct --max-streams", cfg.MaxStreams, MaxStreams)
	}
	if s.log == nil {
		s.log = slog.Default()
	}
	s.service = &service{
		backend:    cfg.Backend,
		records:    cfg.Records,
		journal:    cfg.Journal,
		now:        s.now,
		onTransfer: s.saveState,
	}
	s.audit = &auditor{records: cfg.Records, log: s.log, now: s.now}
	s.servingContext, s.stopServing = context.WithCancel(context.Background())
	s.grpcServer = grpc.NewServer(
		grpc.Creds(&auditedCreds{cfg.Identity.ServerCredentialsForUsers(s.log), s.audit, s.conns}),
		grpc.UnaryInterceptor(s.interceptUnary), grpc.StreamInterceptor(s.interceptStream),
		// the interceptor refuses unknown methods; without a handler it would not be called for them
		grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error { return nil }),
		grpc.MaxRecvMsgSize(maxRequest), grpc.ConnectionTimeout(handshakeTimeout),
		grpc.MaxConcurrentStreams(uint32(s.limiter.maxStreams)),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
	)
	s.health = health.NewServer()
	s.setServing(true)
	grpc_health_v1.RegisterHealthServer(s.grpcServer, s.health)
	ecsv1.RegisterRunControlServer(s.grpcServer, s.service)
	reflection.Register(s.grpcServer)
	if err := s.routes(); err != nil {
		return nil, err
	}
	s.loadState()
	return s, s.listen(cfg)
}

func (s *Server) listen(cfg Config) (err error) {
	if s.apiListener, err = address.ListenTCP(cfg.APIAddr); err != nil {
		return fmt.Errorf("cannot bind the API at %s: %w", cfg.APIAddr, err)
	}
	s.apiListener = connlimit.Listen(s.apiListener, serviceAPI, s.log)
	if cfg.PageAddr == "" {
		return nil
	}
	if s.pageListener, err = address.ListenTCP(cfg.PageAddr); err != nil {
		return errors.Join(fmt.Errorf("cannot bind the page at %s: %w", cfg.PageAddr, err), s.apiListener.Close())
	}
	s.pageListener = connlimit.Listen(s.pageListener, servicePage, s.log)
	at, ok := s.pageListener.Addr().(*net.TCPAddr)
	s.servesHTTPS = !ok || !at.IP.IsLoopback()
	s.httpServer = &http.Server{
		Handler:           s,
		ReadHeaderTimeout: handshakeTimeout,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ConnState:         connlimit.YieldBetweenRequests,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: s.limiter.maxStreams},
		ErrorLog:          slog.NewLogLogger(&auditedLog{s.log.Handler(), s.audit}, slog.LevelWarn),
	}
	if s.servesHTTPS {
		s.httpServer.TLSConfig = certs.WithProtocols(cfg.Identity.ServerForUsers(), "h2", "http/1.1")
	}
	return nil
}

// Refused counts the connections that were refused because too many were open, by service.
func (s *Server) Refused() map[string]uint64 {
	out := map[string]uint64{}
	for service, lis := range map[string]net.Listener{serviceAPI: s.apiListener, servicePage: s.pageListener} {
		if listener, ok := lis.(*connlimit.Listener); ok {
			out[service] = listener.TurnedAway()
		}
	}
	return out
}

// Names of the services, for logs and counters.
const (
	serviceAPI  = "API"
	servicePage = "page"
)

// APIAddr is the address of the gRPC service.
func (s *Server) APIAddr() net.Addr { return s.apiListener.Addr() }

// PageAddr is the address of HTTP; nil if there is none.
func (s *Server) PageAddr() net.Addr {
	if s.pageListener == nil {
		return nil
	}
	return s.pageListener.Addr()
}

// setServing sets the state of the gRPC health service.
func (s *Server) setServing(yes bool) {
	state := grpc_health_v1.HealthCheckResponse_NOT_SERVING
	if yes {
		state = grpc_health_v1.HealthCheckResponse_SERVING
	}
	s.health.SetServingStatus("", state)
	s.health.SetServingStatus(ecsv1.RunControl_ServiceDesc.ServiceName, state)
}

// Handle serves a pattern of http.ServeMux at the page's address to callers with at least that role. Everybody is all
// callers who pass TLS, on loopback also without a session. Paths below /v1/ and /openapi.json belong to the API. Call
// it before Serve.
func (s *Server) Handle(pattern string, least ecsv1.Role, h http.Handler) {
	s.handlerMux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		caller, err := callerOf(r.Context())
		if least == ecsv1.Role_ROLE_UNSPECIFIED {
			err = nil
		} else if err == nil && caller.Role < least {
			err = &roleError{Caller: caller, Action: "see " + r.URL.Path, Needs: least}
		}
		if err != nil {
			s.auditCall(caller, r.Method+" "+quoteShortened(r.URL.Path), nil, err)
			writeError(w, err)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// NewEntrance makes a one-time token, and returns the address that opens a session with it. With HTTPS it is the plain
// address, since a certificate replaces the token; it is empty if there is no page.
func (s *Server) NewEntrance() string {
	switch {
	case s.pageListener == nil:
		return ""
	case s.servesHTTPS:
		return s.entranceURL("")
	}
	return s.entranceURL(s.sessions.newToken())
}

func (s *Server) entranceURL(token string) string {
	if s.servesHTTPS {
		return "https://" + reachableAddress(s.pageListener.Addr()) + "/"
	}
	return "http://" + s.pageListener.Addr().String() + "/?token=" + token
}

// reachableAddress is an address that other hosts can use: if it is bound on all interfaces, with this host's name.
func reachableAddress(bound net.Addr) string {
	at, ok := bound.(*net.TCPAddr)
	name, err := os.Hostname()
	if !ok || !at.IP.IsUnspecified() || err != nil {
		return bound.String()
	}
	return net.JoinHostPort(name, strconv.Itoa(at.Port))
}

func (s *Server) newToken(context.Context, any) (any, error) {
	if s.servesHTTPS {
		return nil, &identityError{"tokens are for loopback only: give a client certificate here"}
	}
	return s.sessions.newToken(), nil
}

// Serve answers until ctx ends or a listener fails. It may be called once.
func (s *Server) Serve(ctx context.Context) error {
	failed := make(chan error, 2)
	serving := 1
	go func() { failed <- s.grpcServer.Serve(s.apiListener) }()
	if s.pageListener != nil {
		serving++
		go func() {
			if s.servesHTTPS {
				failed <- s.httpServer.ServeTLS(s.pageListener, "", "")
			} else {
				failed <- s.httpServer.Serve(s.pageListener)
			}
		}()
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
		serving--
	}
	s.shutdown()
	for range serving {
		// A Serve that had not begun returns an error, since its server is shut down.
		e := <-failed
		if e != nil && !errors.Is(e, http.ErrServerClosed) && !errors.Is(e, grpc.ErrServerStopped) && err == nil {
			err = e
		}
	}
	if err != nil {
		return fmt.Errorf("the API: %w", err)
	}
	return nil
}

// shutdown ends the streams, waits up to shutdownTimeout for calls, and closes.
func (s *Server) shutdown() {
	s.health.Shutdown()
	over, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	s.stopServing() // ends streams
	defer context.AfterFunc(over, s.grpcServer.Stop)()
	if s.httpServer != nil {
		if s.httpServer.Shutdown(over) != nil {
			_ = s.httpServer.Close()
		}
	}
	s.grpcServer.GracefulStop()
}

// Close closes the listeners of a Server without Serve.
func (s *Server) Close() error {
	s.stopServing()
	s.grpcServer.Stop()
	if s.pageListener != nil {
		return errors.Join(s.apiListener.Close(), s.pageListener.Close())
	}
	return s.apiListener.Close()
}
