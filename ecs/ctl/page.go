package ctl

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	tapv1 "ringlet/proto/ringlet/tap/v1"
)

// maxSamples bounds a line of a stream over HTTP: a message of samples in JSON.
const maxSamples = 2 * maxAnswer

// linkError says why a link is not one of a page.
type linkError struct{ Reason string }

func (e *linkError) Error() string {
	return "this is no link of a page: " + e.Reason +
		"; give the address that ringlet run --page printed last, with its token"
}

// pageSession is a session over HTTP, opened with the link of a page.
type pageSession struct {
	host  string // HOST:PORT
	token string // of the session
}

// httpClient makes a connection for each request.
var httpClient = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// openPageSession opens a session with a page's link, and uses up the token in it.
func openPageSession(ctx context.Context, link string) (pageSession, error) {
	at, err := url.Parse(link)
	if err != nil {
		at = &url.URL{}
	}
	token := at.Query().Get("token")
	switch err = nil; {
	case at.Scheme != "http" || at.Host == "":
		err = &linkError{"it does not begin with http:// and the address of a host"}
	case token == "":
		err = &linkError{"it has no token"}
	}
	if err != nil {
		return pageSession{}, &Error{
			Command:  doTap,
			ExitCode: ExitUsage,
			Why:      err.Error(),
			Err:      err,
		}
	}
	v := pageSession{host: at.Host}
	text, _ := json.Marshal(map[string]string{"token": token}) // cannot fail
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	answer, err := v.request(ctx, http.MethodPost, "/v1/session", bytes.NewReader(text))
	if err != nil {
		return v, errorOf(doTap, at.Host, err)
	}
	defer func() { _ = answer.Body.Close() }()
	var opened struct{ Session string }
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxConfiguration)).Decode(&opened); err != nil {
		return v, &Error{
			Command:  doTap,
			ExitCode: exitFault,
			Why:      fmt.Sprintf("%s answers with no session: %v", at.Host, err),
			Err:      err,
		}
	}
	v.token = opened.Session
	return v, nil
}

// request calls the API over HTTP. Its errors are gRPC statuses. The caller closes the body.
func (v pageSession) request(ctx context.Context, method, path string, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+v.host+path, body)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	req.Header.Set("Accept", "application/x-protobuf") // for streams; an older control answers with JSON
	if v.token != "" {
		req.Header.Set("Authorization", "Bearer "+v.token)
	}
	answer, err := httpClient.Do(req)
	if err != nil {
		return nil, unavailableError(err)
	}
	if answer.StatusCode == http.StatusOK {
		return answer, nil
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxConfiguration))
	if err != nil {
		return nil, unavailableError(err)
	}
	return nil, statusFromJSON(text)
}

// unavailableError is the gRPC status for a control that did not answer.
func unavailableError(err error) error {
	var around *url.Error
	if errors.As(err, &around) {
		err = around.Err
	}
	return status.Error(codes.Unavailable, "Error while dialing: "+err.Error())
}

// statusFromJSON decodes an error of the API in JSON.
func statusFromJSON(text []byte) error {
	var why spb.Status
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(text, &why); err != nil {
		return status.Error(codes.Unknown, "this is no control: it answers with something else than the API does")
	}
	return status.ErrorProto(&why)
}

// tap opens a stream of samples.
func (v pageSession) tap(ctx context.Context, sel *tapv1.Selection) (*pageTap, error) {
	query := url.Values{
		"share":   {strconv.FormatUint(sel.GetShare(), 10)},
		"rate":    {strconv.FormatFloat(sel.GetRate(), 'g', -1, 64)},
		"sources": sel.GetSources(),
		"types":   sel.GetTypes(),
		"minSize": {strconv.FormatUint(sel.GetMinSize(), 10)},
		"maxSize": {strconv.FormatUint(sel.GetMaxSize(), 10)},
		"data":    {strconv.FormatBool(sel.GetData())},
	}
	answer, err := v.request(ctx, http.MethodGet, "/v1/tap?"+query.Encode(), nil)
	if err != nil {
		return nil, err
	}
	return readTap(answer.Body), nil
}

// readTap reads a stream from the body of an answer.
func readTap(body io.ReadCloser) *pageTap {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, maxSamples)
	return &pageTap{body: body, lines: lines}
}

// pageTap reads samples as server-sent events (docs/api.md).
type pageTap struct {
	body         io.Closer
	lines        *bufio.Scanner
	endAnnounced bool // the next data are the reason for the stream's end
}

// closeOnError returns the message, or closes the body and returns an error.
func (p *pageTap) closeOnError(m *tapv1.Samples, err error) (*tapv1.Samples, error) {
	if err != nil {
		return nil, errors.Join(status.Errorf(codes.DataLoss, "a message cannot be read: %v", err), p.body.Close())
	}
	return m, nil
}

// Recv waits for the next message. It closes the body with the first error.
func (p *pageTap) Recv() (*tapv1.Samples, error) {
	for p.lines.Scan() {
		field, value, _ := strings.Cut(p.lines.Text(), ": ")
		switch {
		case field == "event" && value == "end":
			p.endAnnounced = true
		case field == "data" && p.endAnnounced:
			return nil, errors.Join(statusFromJSON([]byte(value)), p.body.Close())
		case field == "data":
			m := &tapv1.Samples{}
			return p.closeOnError(m, (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal([]byte(value), m))
		case field == "pb":
			m := &tapv1.Samples{}
			b, err := base64.StdEncoding.DecodeString(value)
			if err == nil {
				err = proto.Unmarshal(b, m)
			}
			return p.closeOnError(m, err)
		}
	}
	err := p.lines.Err()
	if err == nil {
		err = io.ErrUnexpectedEOF
	}
	_ = p.body.Close() // reading has failed already
	return nil, status.Error(codes.Unavailable, "the stream ended: "+err.Error())
}
