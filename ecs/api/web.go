package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"ringlet/ecs/record"
	"ringlet/node/certs"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
	samplev1 "ringlet/proto/ringlet/sample/v1"
	tapv1 "ringlet/proto/ringlet/tap/v1"
)

const (
	callPath     = "/v1/"
	documentPath = "/openapi.json"
	// maxBody bounds the body of a request, in bytes: a configuration with all its settings has a few kB.
	maxBody = 1 << 20
	// bodyTimeout bounds how long a client may take to send the body.
	bodyTimeout = 10 * time.Second
)

// jsonOptions writes fields with default values, too, so that clients need not know the defaults.
var jsonOptions = protojson.MarshalOptions{EmitDefaultValues: true}

// inProcessConn is a connection to this process's own service, for the gateway: calls over HTTP go through the
// interceptors, too.
type inProcessConn struct{ s *Server }

// Invoke calls a method of RunControl.
func (c inProcessConn) Invoke(ctx context.Context, method string, args, reply any, _ ...grpc.CallOption) error {
	for _, m := range ecsv1.RunControl_ServiceDesc.Methods {
		if m.MethodName != shortName(method) {
			continue
		}
		out, err := m.Handler(c.s.service, ctx, func(into any) error {
			proto.Merge(into.(proto.Message), args.(proto.Message))
			return nil
		}, c.s.interceptUnary)
		if err != nil {
			return err
		}
		proto.Merge(reply.(proto.Message), out.(proto.Message))
		return nil
	}
	return status.Errorf(codes.Unimplemented, "there is no method %s", method)
}

// NewStream implements grpc.ClientConnInterface. It always fails: streams are server-sent events (serveStream).
func (inProcessConn) NewStream(context.Context, *grpc.StreamDesc, string,
	...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, status.Error(codes.Unimplemented, "streams are server-sent events")
}

// routes registers the paths of the API.
func (s *Server) routes() error {
	document, err := openAPI()
	if err != nil {
		return err
	}
	gateway := runtime.NewServeMux(
		runtime.WithMarshalerOption(runtime.MIMEWildcard, &runtime.JSONPb{MarshalOptions: jsonOptions}),
		runtime.WithErrorHandler(func(_ context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter,
			_ *http.Request, err error) {
			if s := status.Convert(err); s.Code() == codes.InvalidArgument && len(s.Details()) == 0 {
				err = &ArgumentError{Name: "request", Why: s.Message()} // the gateway could not decode the request
			}
			writeError(w, err)
		}),
		runtime.WithRoutingErrorHandler(func(_ context.Context, _ *runtime.ServeMux, _ runtime.Marshaler,
			w http.ResponseWriter, r *http.Request, code int) {
			writeNoSuchCall(w, r, code)
		}),
		runtime.WithDisablePathLengthFallback(), runtime.WithDisableHTTPMethodOverride(),
	)
	if err := ecsv1.RegisterRunControlHandlerClient(context.Background(), gateway,
		ecsv1.NewRunControlClient(inProcessConn{s})); err != nil {
		return err
	}
	s.apiMux.Handle(callPath, gateway)
	s.apiMux.HandleFunc("GET /v1/runs/{number}", func(w http.ResponseWriter, r *http.Request) {
		if number, ok := strings.CutSuffix(r.PathValue("number"), ".json"); ok {
			s.serveRecord(w, r, number)
			return
		}
		gateway.ServeHTTP(w, r)
	})
	s.apiMux.HandleFunc("GET /v1/events", s.streamEvents)
	s.apiMux.HandleFunc("GET /v1/snapshots", s.streamHandler(ecsv1.RunControl_WatchSnapshots_FullMethodName,
		func() proto.Message { return &ecsv1.WatchSnapshotsRequest{} }))
	s.apiMux.HandleFunc("GET /v1/tap", s.streamHandler(ecsv1.RunControl_Tap_FullMethodName,
		func() proto.Message { return &tapv1.Selection{} }))
	s.apiMux.HandleFunc("GET /v1/sample", s.streamHandler(ecsv1.RunControl_Sample_FullMethodName,
		func() proto.Message { return &samplev1.Question{} }))
	s.apiMux.HandleFunc("POST /v1/session", s.postSession)
	s.apiMux.HandleFunc("POST /v1/session/token", s.postToken)
	s.apiMux.HandleFunc("GET "+documentPath, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(document) // the client is gone if this fails
	})
	s.apiMux.HandleFunc(documentPath, func(w http.ResponseWriter,
		r *http.Request) {
		writeNoSuchCall(w, r, http.StatusMethodNotAllowed)
	})
	return nil
}

// writeNoSuchCall answers a request for an unknown path or method.
func writeNoSuchCall(w http.ResponseWriter, r *http.Request, code int) {
	err := status.Errorf(codes.NotFound, "%s %s is no call of this API, %s lists them", r.Method,
		quoteShortened(r.URL.Path), documentPath)
	writeStatus(w, code, status.Convert(asStatus(err)))
}

// serveRecord serves a run's record as a file: the same bytes each time for the same record.
func (s *Server) serveRecord(w http.ResponseWriter, r *http.Request, number string) {
	n, err := strconv.ParseUint(number, 10, 32)
	if err != nil {
		writeError(w, &ArgumentError{Name: "number", Why: quoteShortened(number) + " is no number of a run"})
		return
	}
	run, err := ecsv1.NewRunControlClient(inProcessConn{s}).GetRun(r.Context(), &ecsv1.GetRunRequest{Number: uint32(n)})
	if err != nil {
		writeError(w, err)
		return
	}
	text, err := record.JSON(run)
	if err != nil {
		writeError(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Disposition", fmt.Sprintf(`attachment; filename="run-%d.json"`, run.GetNumber()))
	_, _ = w.Write(text) // the client is gone if this fails
}

// ServeHTTP handles all HTTP requests: it identifies the caller, refuses requests that a page of another site made the
// browser send, and calls the API or a handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // clears the deadline of the last request
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 { // a stream ends when the client's certificate does
		ctx, cancel := context.WithDeadline(r.Context(), r.TLS.PeerCertificates[0].NotAfter)
		defer cancel()
		r = r.WithContext(ctx)
	}
	w.Header().Set("Referrer-Policy", "no-referrer") // the address may have a token
	if strings.HasPrefix(r.URL.Path, callPath) {
		w.Header().Set("Cache-Control", "no-store")
	}
	caller, ambient, err := s.identify(r)
	if err == nil && ambient && r.Method != http.MethodGet && r.Method != http.MethodHead {
		err = s.checkSameOrigin(r)
	}
	if err != nil {
		_ = s.audit.writeRefusal(caller, r.Method+" "+quoteShortened(r.URL.Path), "", err)
		writeError(w, err)
		return
	}
	if err := readBody(w, r); err != nil {
		writeError(w, err)
		return
	}
	if token := r.URL.Query().Get("token"); token != "" && r.URL.Path == "/" && r.Method == http.MethodGet {
		if _, err := s.openSession(w, r, token); err != nil {
			writeError(w, err)
			return
		}
		http.Redirect(w, r, "/", http.StatusSeeOther)
		return
	}
	serve := s.handlerMux
	if strings.HasPrefix(r.URL.Path, callPath) || r.URL.Path == documentPath {
		serve = s.apiMux
	}
	rc := http.NewResponseController(w)
	serve.ServeHTTP(&deadlineWriter{w, rc, s.stallTimeout}, r.WithContext(withCaller(r.Context(), caller)))
	_ = rc.SetWriteDeadline(time.Now().Add(s.stallTimeout)) // for the rest of the answer, in buffers
}

// deadlineWriter bounds the time of each write of an answer.
type deadlineWriter struct {
	http.ResponseWriter
	rc      *http.ResponseController
	timeout time.Duration
}

// Write sends a piece, or fails if the client does not read for the time-out.
func (t *deadlineWriter) Write(b []byte) (int, error) {
	_ = t.rc.SetWriteDeadline(time.Now().Add(t.timeout)) // without a deadline, the end of the client ends it
	return t.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (t *deadlineWriter) Unwrap() http.ResponseWriter { return t.ResponseWriter }

// identify finds the caller of a request. ambient says that a browser sends the identity, a cookie or a certificate,
// with the requests of any page. A caller without a session is unknown and no error, since some handlers are for
// Everybody.
func (s *Server) identify(r *http.Request) (c caller, ambient bool, err error) {
	c = caller{Name: unknownName, Address: r.RemoteAddr}
	if s.servesHTTPS {
		if r.TLS == nil {
			return c, true, &identityError{"the connection has no TLS"}
		}
		c, err = callerByCertificate(c, *r.TLS)
		return c, true, err
	}
	// DNS rebinding: an attacker's name that resolves to loopback would make the attacker's page same-origin.
	if !isLoopbackHost(r.Host) {
		return c, true, status.Errorf(codes.PermissionDenied,
			"this address is for this machine alone, and %s is not one of its names", quoteShortened(r.Host))
	}
	word, ambient := s.sessionSecret(r)
	if word != "" && s.sessions.renewIfOpen(word, s.now()) {
		c.Name, c.Role = certs.TokenUserName, ecsv1.Role_ROLE_ADMIN
	}
	return c, ambient, nil
}

// isLoopbackHost says whether a Host header names this machine's loopback.
func isLoopbackHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && addr.IsLoopback()
}

// checkSameOrigin refuses a request that a page of another site made the browser send.
func (s *Server) checkSameOrigin(r *http.Request) error {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" {
		if site == "same-origin" {
			return nil
		}
		return status.Errorf(codes.PermissionDenied, "a page of another site (%s) made the browser ask this",
			quoteShortened(site))
	}
	origin := r.Header.Get("Origin")
	if u, err := url.Parse(origin); err == nil && origin != "" && u.Host == r.Host &&
		(u.Scheme == "https") == s.servesHTTPS {
		return nil
	}
	if origin == "" && s.servesHTTPS {
		return nil // no browser: browsers send Origin with every POST
	}
	return status.Errorf(codes.PermissionDenied,
		"a request with a cookie must come from a page of this address, and its origin is %s", quoteShortened(origin))
}

// readBody reads the whole body, bounded in size and time, so that a client that sends slowly does not hold a handler.
func readBody(w http.ResponseWriter, r *http.Request) error {
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(bodyTimeout)) // without a deadline, the size is still bounded
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	_ = rc.SetReadDeadline(time.Time{})
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return &ArgumentError{Name: "body", Why: fmt.Sprintf("it has more than %d bytes", maxBody)}
	case err != nil:
		return &ArgumentError{Name: "body", Why: "it was not received completely: " + err.Error()}
	}
	r.Body = io.NopCloser(bytes.NewReader(text))
	return nil
}

// decode reads a JSON body strictly.
func decode(r *http.Request, into any) error {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return &ArgumentError{Name: "body", Why: err.Error()}
	}
	return nil
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the client is gone if this fails
}

// writeError answers with a google.rpc.Status.
func writeError(w http.ResponseWriter, err error) {
	s := status.Convert(asStatus(err))
	writeStatus(w, runtime.HTTPStatusFromCode(s.Code()), s)
}

func writeStatus(w http.ResponseWriter, code int, s *status.Status) {
	text, err := jsonOptions.Marshal(s.Proto())
	if err != nil {
		text = []byte(`{"code":13, "message":"the error cannot be written as JSON", ` +
			`"details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo", "reason":"INTERNAL", "domain":"ringlet"}]}`)
	}
	w.Header().Set("Content-Type", "application/json")
	if code == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	w.WriteHeader(code)
	_, _ = w.Write(text)
}
