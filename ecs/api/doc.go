// Package api is the API of the run control: the service RunControl of proto/ringlet/ecs/v1 over gRPC, the same over
// HTTP/JSON with its openAPI document, and streams as server-sent events.
//
// It stands for the control part of Ringlet's architecture: people and programs steer one partition through one
// interface, and whatever they may do is said by the role in their certificate. What a command does is not its matter:
// a Backend (the partition) does it. This package decides who may ask, whether the question has its right form, who
// has control, and what an error looks like on the wire; and it writes down who asked for what and what was answered.
//
// # What the caller must do, in order
//
//  1. New with a Backend, the records and the identity of the control. It binds the addresses.
//  2. Handle for what else the page's address serves: the page itself, figures, profiles.
//  3. Serve until the context ends. Streams end then, and calls have two seconds to come to theirs.
//
// # One way in
//
// Every call goes through the same two interceptors, whether it came over gRPC or HTTP: the gateway calls the service
// in this process, with the caller in the context. They refuse by the table of roles (Roles), write the audit log, and
// turn a panic of a handler into an error and an event. A method that is not in the table is refused.
//
// # What it does not promise
//
// A session that was kept over a restart lasts from when it was opened, not from its last use. A command is written to
// the audit log once, when it has its answer; where that fails it is logged as an error, and further commands are
// refused until the log can be written again. It does not bound how often somebody may ask; it bounds how large a
// question is, how long a client may be silent or leave an answer unread, and how many streams are open
// and how much is on its way in them.
package api
