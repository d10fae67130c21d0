package sdnotify

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ringlet/testkit/patiently"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// listen is a service manager that sets the environment.
func listen(t *testing.T, name string) *net.UnixConn {
	t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	t.Setenv(socketVariable, name)
	return conn
}

func next(t *testing.T, conn *net.UnixConn) string {
	t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(patiently.LongTimeout)); err != nil { // only against hanging
		t.Fatal(err)
	}
	b := make([]byte, 1000)
	n, err := conn.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	return string(b[:n])
}

func mustOpen(t *testing.T) *Notifier {
	t.Helper()
	n, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Close() })
	return n
}

func TestSaysWhatIsSaid(t *testing.T) {
	for _, name := range []string{filepath.Join(t.TempDir(), "notify"), "@ringlet-test-" + strconv.Itoa(os.Getpid())} {
		conn := listen(t, name)
		n := mustOpen(t)
		if v, there := os.LookupEnv(socketVariable); there {
			t.Errorf("children would still see %s=%s", socketVariable, v)
		}
		n.NotifyReady("in the cluster")
		n.SetStatus("run 7\nREADY=0")
		n.NotifyStopping("told to")
		n.ExtendTimeout(75 * time.Second)
		for _, want := range []string{
			"READY=1\nSTATUS=in the cluster", "STATUS=run 7 READY=0", "STOPPING=1\nSTATUS=told to",
			"EXTEND_TIMEOUT_USEC=75000000",
		} {
			if got := next(t, conn); got != want {
				t.Errorf("%s: got %q, want %q", name, got, want)
			}
		}
	}
}

func TestWatchSaysAliveWhileTheCheckDoes(t *testing.T) {
	conn := listen(t, filepath.Join(t.TempDir(), "notify"))
	t.Setenv(watchdogVariable, "3000")
	t.Setenv(watchdogPIDVariable, strconv.Itoa(os.Getpid()))
	n := mustOpen(t)
	ctx, cancel := context.WithCancel(context.Background())
	checks, ended := 0, make(chan struct{})
	go func() {
		defer close(ended)
		n.Watch(ctx, func(within context.Context) error {
			switch checks++; checks {
			case 2:
				return errors.New("the service does not answer")
			case 3:
				<-within.Done() // hangs: what is late is not said to be alive
				return within.Err()
			}
			return nil
		})
	}()
	want := []string{"WATCHDOG=1", "STATUS=not well: the service does not answer",
		"STATUS=not well: context deadline exceeded", "WATCHDOG=1"}
	for _, w := range want {
		if got := next(t, conn); got != w {
			t.Errorf("got %q, want %q", got, w)
		}
	}
	cancel()
	patiently.Receive(t, ended)
}

func TestNobodyListens(t *testing.T) {
	t.Setenv(socketVariable, "")
	n, err := Open()
	if n != nil || err != nil {
		t.Fatalf("%v, %v", n, err)
	}
	n.NotifyReady("r")
	n.SetStatus("s")
	n.NotifyStopping("t")
	n.Watch(context.Background(), func(context.Context) error { panic("nobody asked") })
	if err := n.Close(); err != nil {
		t.Error(err)
	}
}

func TestNotWatched(t *testing.T) {
	conn := listen(t, filepath.Join(t.TempDir(), "notify"))
	t.Setenv(watchdogVariable, "1000")
	t.Setenv(watchdogPIDVariable, "1") // meant for another process
	n := mustOpen(t)
	n.Watch(context.Background(), func(context.Context) error { panic("nobody asked") })
	n.SetStatus("still heard")
	if got := next(t, conn); got != "STATUS=still heard" {
		t.Errorf("got %q", got)
	}
}

func TestOpenNamesWhatIsWrong(t *testing.T) {
	listen(t, filepath.Join(t.TempDir(), "notify"))
	at := os.Getenv(socketVariable)
	for variable, value := range map[string]string{
		socketVariable: "/nowhere/notify", watchdogVariable: "soon", watchdogPIDVariable: "",
	} {
		t.Setenv(socketVariable, at)
		t.Setenv(watchdogVariable, "-5")
		t.Setenv(variable, value)
		_, err := Open()
		var usage *usageError
		if !errors.As(err, &usage) || usage.Value == "" {
			t.Errorf("%s=%q: %v", variable, value, err)
		}
	}
}
