package api

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/grpc-ecosystem/grpc-gateway/v2/utilities"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

const (
	// heartbeatInterval is the interval of comments on an idle stream: they keep proxies from closing it, and find clients
	// that are gone.
	heartbeatInterval = 15 * time.Second
	// protobufType in the header Accept asks for messages as protobuf, which clients decode in a fraction of the time of
	// JSON.
	protobufType = "application/x-protobuf"
)

// streamEvents is GET /v1/events: Watch. The id of a server-sent event is the event's number, from which a browser that
// was cut off continues.
func (s *Server) streamEvents(w http.ResponseWriter, r *http.Request) {
	req := &ecsv1.WatchRequest{}
	if err := fillFromQuery(req, r.URL.Query()); err != nil {
		writeError(w, err)
		return
	}
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		number, err := strconv.ParseUint(last, 10, 64)
		if err != nil {
			writeError(w, &ArgumentError{Name: "Last-Event-ID", Why: quoteShortened(last) + " is no number of an event"})
			return
		}
		req.After = number
	}
	s.serveStream(w, r, ecsv1.RunControl_Watch_FullMethodName, req)
}

// streamHandler serves the stream of a method; the query is its request.
func (s *Server) streamHandler(method string, request func() proto.Message) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		req := request()
		if err := fillFromQuery(req, r.URL.Query()); err != nil {
			writeError(w, err)
			return
		}
		s.serveStream(w, r, method, req)
	}
}

// fillFromQuery fills a message from a query.
func fillFromQuery(into proto.Message, query url.Values) error {
	if err := runtime.PopulateQueryParameters(into, query, utilities.NewDoubleArray(nil)); err != nil {
		return &ArgumentError{Name: "query", Why: err.Error()}
	}
	return nil
}

// serveStream calls a streaming method, and sends its messages as server-sent events.
func (s *Server) serveStream(w http.ResponseWriter, r *http.Request, method string, req proto.Message) {
	for _, d := range ecsv1.RunControl_ServiceDesc.Streams {
		if d.StreamName != shortName(method) {
			continue
		}
		out := &eventStream{
			ctx: r.Context(),
			w:   w,
			rc:  http.NewResponseController(w),
			req: req,

			stallTimeout: s.stallTimeout,
			binary:       r.Header.Get("Accept") == protobufType,
		}
		err := s.interceptStream(s.service, out, &grpc.StreamServerInfo{FullMethod: method, IsServerStream: true}, d.Handler)
		out.end(err)
		return
	}
}

// eventStream is a gRPC stream whose messages leave as server-sent events.
type eventStream struct {
	grpc.ServerStream // nil: all methods that handlers use are below

	// immutable
	ctx          context.Context
	req          proto.Message
	stallTimeout time.Duration // how long a client may not read
	binary       bool          // messages leave as protobuf in base64, in a field pb

	mu             sync.Mutex // guards what follows
	w              http.ResponseWriter
	rc             *http.ResponseController
	heartbeatTimer *time.Timer // nil before the answer begins
	ended          bool
}

// Context returns the context of the request.
func (e *eventStream) Context() context.Context { return e.ctx }

// RecvMsg returns the request. The handler calls it once.
func (e *eventStream) RecvMsg(m any) error {
	proto.Merge(m.(proto.Message), e.req)
	return nil
}

// SendHeader begins the answer. The handler calls it after it has checked the request, before the first message.
func (e *eventStream) SendHeader(metadata.MD) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.w.Header().Set("Content-Type", "text/event-stream")
	e.w.Header().Set("X-Accel-Buffering", "no")
	e.w.WriteHeader(http.StatusOK)
	e.heartbeatTimer = time.AfterFunc(heartbeatInterval, e.writeHeartbeat)
	return e.write("retry: 1000\n\n")
}

// SendMsg writes a message as a server-sent event.
func (e *eventStream) SendMsg(m any) error {
	name, text, err := e.encode(m.(proto.Message))
	if err != nil {
		return err
	}
	id := ""
	if event, ok := m.(*ecsv1.Event); ok && event.GetNumber() != 0 {
		id = fmt.Sprintf("id: %d\n", event.GetNumber())
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.write(id, name, text, "\n\n")
}

// encode returns a message in the form that the client asked for, and the name of its field.
func (e *eventStream) encode(m proto.Message) (name, text string, err error) {
	if !e.binary {
		b, err := jsonOptions.Marshal(m)
		return "data: ", string(b), err
	}
	b, err := proto.Marshal(m)
	return "pb: ", base64.StdEncoding.EncodeToString(b), err
}

// writeHeartbeat writes a comment, every heartbeatInterval.
func (e *eventStream) writeHeartbeat() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.ended {
		_ = e.write(": still here\n\n") // a client that is gone ends the request's context
		e.heartbeatTimer.Reset(heartbeatInterval)
	}
}

// write sends texts and flushes. The caller holds mu.
func (e *eventStream) write(texts ...string) error {
	// if the deadline cannot be set, the heartbeat still finds a dead client
	_ = e.rc.SetWriteDeadline(time.Now().Add(e.stallTimeout))
	for _, text := range texts { // not joined: a sample may have many MB
		if _, err := io.WriteString(e.w, text); err != nil {
			return err
		}
	}
	return e.rc.Flush()
}

// end sends why the stream ends: as an event end, or as the error of the call if the answer has not begun.
func (e *eventStream) end(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ended = true
	if e.heartbeatTimer == nil {
		if err != nil {
			writeError(e.w, err)
		}
		return
	}
	e.heartbeatTimer.Stop()
	if err != nil && e.ctx.Err() == nil {
		text, _ := jsonOptions.Marshal(status.Convert(err).Proto())
		_ = e.write("event: end\ndata: ", string(text), "\n\n") // the client sees the end of the stream anyway
	}
	_ = e.rc.SetWriteDeadline(time.Time{})
}
