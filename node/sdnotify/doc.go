// Package sdnotify reports the state of a process to the service manager that started it: ready, a line of status,
// alive, stopping. It stands for the founding documents' demand that components be started and watched by what runs the
// whole, not by hand; the protocol is systemd's sd_notify(3), datagrams to the socket that NOTIFY_SOCKET names.
//
// The caller makes a Notifier with Open, once and early: Open removes the variables from the environment, so that no
// child can report in this process's name. The caller then calls NotifyReady when the process can serve, Watch in a
// goroutine of its own, and NotifyStopping before it ends. Without a service manager the Notifier is nil, and its
// methods do nothing.
//
// It does not promise that a service manager listens. Watch reports "alive" only while the check succeeds in time: a
// process that hangs, or whose check fails, falls silent, and the service manager ends it.
package sdnotify
