package sdnotify

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// Notifier reports to a service manager. Several goroutines may use it.
type Notifier struct {
	conn             *net.UnixConn
	watchdogInterval time.Duration // 0: the service manager expects no reports
}

// A usageError says that a variable of the service manager cannot be used.
type usageError struct {
	Variable, Value string
	Cause           error
}

func (e *usageError) Error() string {
	return fmt.Sprintf("service manager: %s=%q: %v", e.Variable, e.Value, e.Cause)
}

// Unwrap returns what is wrong.
func (e *usageError) Unwrap() error { return e.Cause }

// Variables of a service manager: its socket, how often it expects a report, and from which process.
const (
	socketVariable      = "NOTIFY_SOCKET"
	watchdogVariable    = "WATCHDOG_USEC"
	watchdogPIDVariable = "WATCHDOG_PID"
)

// Open reads the variables of the service manager and removes them from the environment; nil without an error if there
// are none.
func Open() (*Notifier, error) {
	socket, usec, pid := popEnv(socketVariable), popEnv(watchdogVariable), popEnv(watchdogPIDVariable)
	if socket == "" {
		return nil, nil
	}
	// A leading @ means the abstract name space; package net reads it so.
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		return nil, &usageError{socketVariable, socket, err}
	}
	n := &Notifier{conn: conn}
	if usec == "" || pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return n, nil
	}
	v, err := strconv.ParseInt(usec, 10, 64)
	if err == nil && (v <= 0 || v > int64(24*time.Hour/time.Microsecond)) {
		err = fmt.Errorf("not a time from 1 µs to a day")
	}
	if err != nil {
		_ = conn.Close()
		return nil, &usageError{watchdogVariable, usec, err}
	}
	n.watchdogInterval = time.Duration(v) * time.Microsecond
	return n, nil
}

// popEnv reads a variable and removes it.
func popEnv(name string) string {
	v := os.Getenv(name)
	_ = os.Unsetenv(name) // cannot fail for these names
	return v
}

// NotifyReady reports that the process serves, with a line of status.
func (n *Notifier) NotifyReady(status string) { n.send("READY=1\nSTATUS=" + oneLine(status)) }

// SetStatus reports a line of status for people.
func (n *Notifier) SetStatus(status string) { n.send("STATUS=" + oneLine(status)) }

// NotifyStopping reports that the process is about to end.
func (n *Notifier) NotifyStopping(status string) { n.send("STOPPING=1\nSTATUS=" + oneLine(status)) }

// ExtendTimeout asks the service manager not to kill this process within the given time from now. It is for a process
// that the service manager has told to end.
func (n *Notifier) ExtendTimeout(by time.Duration) {
	n.send("EXTEND_TIMEOUT_USEC=" + strconv.FormatInt(by.Microseconds(), 10))
}

// Watch reports "alive" each time that check returns nil, until ctx ends: three times within the time-out of the
// service manager. If that expects no reports, Watch returns at once.
func (n *Notifier) Watch(ctx context.Context, check func(context.Context) error) {
	if n == nil || n.watchdogInterval == 0 {
		return
	}
	every := n.watchdogInterval / 3
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		within, cancel := context.WithTimeout(ctx, every)
		err := check(within)
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			n.send("WATCHDOG=1")
		default:
			n.SetStatus("not well: " + err.Error())
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Close closes the socket. Later reports are lost.
func (n *Notifier) Close() error {
	if n == nil {
		return nil
	}
	return n.conn.Close()
}

// send sends one message. The process goes on if the service manager does not listen.
func (n *Notifier) send(message string) {
	if n != nil {
		_, _ = n.conn.Write([]byte(message))
	}
}

// oneLine keeps a status from being read as several assignments.
func oneLine(status string) string { return strings.ReplaceAll(status, "\n", " ") }
