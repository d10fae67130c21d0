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

// Notifier speaks to a service manager. It may be used by several goroutines.
type Notifier struct {
	conn             *net.UnixConn
	watchdogInterval time.Duration // 0: nobody watches
}

// A usageError says that what the service manager left in the environment cannot be used.
type usageError struct {
	Variable, Value string
	Cause           error
}

func (e *usageError) Error() string {
	return fmt.Sprintf("service manager: %s=%q: %v", e.Variable, e.Value, e.Cause)
}

// Unwrap gives what is wrong.
func (e *usageError) Unwrap() error { return e.Cause }

// Variables by which a service manager tells where it listens, how often it wants to hear, and from whom.
const (
	socketVariable      = "NOTIFY_SOCKET"
	watchdogVariable    = "WATCHDOG_USEC"
	watchdogPIDVariable = "WATCHDOG_PID"
)

// Open takes the way to the service manager out of the environment; nil without an error where there is none.
func Open() (*Notifier, error) {
	socket, usec, pid := popEnv(socketVariable), popEnv(watchdogVariable), popEnv(watchdogPIDVariable)
	if socket == "" {
		return nil, nil
	}
	// A leading @ stands for the abstract name space; package net reads it so.
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
		err = fmt.Errorf("no time between 1 µs and a day")
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
	_ = os.Unsetenv(name) // fails for no name of these
	return v
}

// NotifyReady says that the process serves, with a line of status.
func (n *Notifier) NotifyReady(status string) { n.send("READY=1\nSTATUS=" + oneLine(status)) }

// SetStatus tells a line for people.
func (n *Notifier) SetStatus(status string) { n.send("STATUS=" + oneLine(status)) }

// NotifyStopping says that the process is about to end.
func (n *Notifier) NotifyStopping(status string) { n.send("STOPPING=1\nSTATUS=" + oneLine(status)) }

// ExtendTimeout asks the service manager, which has told the process to end, not to kill it before so long has passed
// from now on.
func (n *Notifier) ExtendTimeout(by time.Duration) {
	n.send("EXTEND_TIMEOUT_USEC=" + strconv.FormatInt(by.Microseconds(), 10))
}

// Watch says "alive" until ctx ends, whenever check has returned nil, three times within the time after which the
// service manager loses its patience. Where nobody watches it returns at once.
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

// Close gives the way up. Nothing can be told any more.
func (n *Notifier) Close() error {
	if n == nil {
		return nil
	}
	return n.conn.Close()
}

// send tells one message. A service manager that does not listen is its own problem: the process goes on.
func (n *Notifier) send(message string) {
	if n != nil {
		_, _ = n.conn.Write([]byte(message))
	}
}

// oneLine keeps a status from being read as more than one assignment.
func oneLine(status string) string { return strings.ReplaceAll(status, "\n", " ") }
