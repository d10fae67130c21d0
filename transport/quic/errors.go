package quic

import (
	"cmp"
	"errors"
	"strings"

	quicgo "github.com/quic-go/quic-go"

	"ringlet/transport"
)

// silentForPrefix begins the reason for closing a connection to a silent peer.
const silentForPrefix = "nothing has been heard of it for "

// endError says why a connection is over, with the reason of the end that closed it.
type endError struct {
	Remote bool // the peer closed it
	Reason string
	cause  error // quic-go's error
}

func (e *endError) Error() string {
	lasted, silent := strings.CutPrefix(e.Reason, silentForPrefix)
	switch {
	case silent && e.Remote:
		return "its other end has closed it, which had heard nothing of this node for " + lasted
	case silent:
		return e.Reason
	case e.Remote:
		return "its other end has closed it: " + e.Reason
	}
	return "this end has closed it: " + e.Reason
}

func (e *endError) Unwrap() error { return e.cause }

// translateError turns quic-go's errors for the end of a connection, or of the whole network, into ours, and returns
// other errors as they are. Every Send calls it: without an error it allocates nothing.
func translateError(err error) error {
	if err == nil {
		return nil
	}
	var app *quicgo.ApplicationError
	var idle *quicgo.IdleTimeoutError
	switch {
	case errors.As(err, &app):
		return &endError{Remote: app.Remote, Reason: cmp.Or(app.ErrorMessage, "no reason was given"), cause: err}
	case errors.As(err, &idle):
		return &endError{Reason: silentForPrefix + "too long", cause: err}
	case errors.Is(err, quicgo.ErrTransportClosed):
		return transport.ErrClosed
	}
	return err
}

// noAnswerError says that no peer has answered a handshake.
type noAnswerError struct {
	Peer, Addr string
	cause      error // quic-go's error
}

func (e *noAnswerError) Error() string {
	return "no answer from " + e.Addr + ": check whether " + e.Peer + " runs, and whether UDP packets reach it there; " +
		"if large packets do not pass between the two hosts while small ones do, ringlet doctor --peer tells which sizes pass"
}

func (e *noAnswerError) Unwrap() error { return e.cause }

// dialError turns a peer's refusal, or a handshake that cannot succeed, into a typed error.
func dialError(name, addr string, err error) error {
	var app *quicgo.ApplicationError
	if errors.As(err, &app) && app.Remote && app.ErrorCode != 0 {
		return &transport.PeerRefusedError{Peer: name, Code: transport.RefuseCode(app.ErrorCode), Reason: app.ErrorMessage}
	}
	var tr *quicgo.TransportError
	if errors.As(err, &tr) && tr.ErrorCode.IsCryptoError() {
		return &transport.HandshakeError{Peer: name, Addr: addr, Cause: err}
	}
	var idle *quicgo.IdleTimeoutError
	var late *quicgo.HandshakeTimeoutError
	if errors.As(err, &idle) || errors.As(err, &late) {
		return &noAnswerError{Peer: name, Addr: addr, cause: err}
	}
	return translateError(err)
}

// ClosedByPeer reports whether an error means that the peer has closed the connection on purpose.
func ClosedByPeer(err error) bool {
	var app *quicgo.ApplicationError
	return errors.As(err, &app) && app.Remote && app.ErrorCode == 0
}
