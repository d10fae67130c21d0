// Package sdnotify tells the service manager that started a process how it does: ready, a line of status, alive,
// stopping. It stands for the founding documents' demand that components be started and watched by what runs the whole,
// not by hand; the protocol is systemd's sd_notify(3), datagrams to the socket that NOTIFY_SOCKET names.
//
// The caller takes a Notifier with Open, once and early, since it takes the variables out of the environment so that no
// child speaks in this process's name. It then calls Ready when it can serve, Watch in a goroutine of its own, and
// Stopping before it ends. Without a service manager there is no Notifier: all methods of a nil one do nothing.
//
// It does not promise that anybody listens. Watch says "alive" only as long as the check that it is given says so in
// time: a process that hangs, or whose check fails, falls silent, and the service manager ends it.
package sdnotify
