// Package api is the API of the run control: the service RunControl of proto/ringlet/ecs/v1 over gRPC, the same over
// HTTP/JSON with its openAPI document, and streams as server-sent events.
//
// It stands for the control part of Ringlet's architecture: people and programs steer one partition through one
// interface, and the role in their certificate says what they may do. A Backend (the partition) carries commands out.
// This package checks callers and the form of requests, keeps which user has control, converts errors for the wire, and
// writes the audit log.
//
// # What the caller must do, in order
//
//  1. New with a Backend, the records and the identity of the control. It binds the addresses.
//  2. Handle for everything else at the page's address: the page itself, figures, profiles.
//  3. Serve until the context ends. Streams end then, and calls have two seconds to finish.
//
// # One way in
//
// Every call goes through the same two interceptors, whether it came over gRPC or HTTP: the gateway calls the service
// in this process, with the caller in the context. The interceptors refuse by the table of roles (leastRoleByMethod)
// and every method that is not in it, write the audit log, and turn a panic of a handler into an error and an event.
//
// # What it does not promise
//
// The last use of a session is saved only when a session is opened or the owner of the control changes: after a restart
// of the control, a session expires by that time. A
// command is written to the audit log once, with its answer; if that fails, it is logged as an error, and the API
// refuses further commands, but stop, until the log can be written again. The API does not bound how often a client may
// ask; it bounds the size of a request, how long a client may be silent or leave an answer unread, the number of open
// streams, and the bytes under way in them.
package api
