package nodes

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"ringlet/ecs/partition/fault"
	"ringlet/testkit/patiently"
)

// TestStoppedProcessIsTheCause has a link break to a node whose process is stopped: the process is the cause.
func TestStoppedProcessIsTheCause(t *testing.T) {
	sleeper := exec.Command("sleep", "1000")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = sleeper.Process.Kill()
		_ = sleeper.Wait() // bounded by the kill
	}()
	process := strconv.Itoa(sleeper.Process.Pid)
	if isStopped(process) || isStopped("") {
		t.Fatal("a process that runs counts as stopped")
	}
	f := usualFaults(true)
	f.tolerateLosses(func([]fault.Fault) {})
	f.updateCore(func(c *fault.Core) { c.SetLocation("n2", "alpha", process) })
	if err := sleeper.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for until := time.Now().Add(patiently.LongTimeout); !isStopped(process); time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("the process is not stopped")
		}
	}
	f.observe(fault.Observation{Kind: fault.Disconnected, ReportedBy: "n1", Fault: fault.Fault{Component: "n2",
		Subsystem: fault.SubsystemTransport, What: "the link of n1 to it is down"}})
	why := f.cause()
	if why == nil || why.Component != "n2" || !strings.Contains(why.What, "was stopped") ||
		!strings.Contains(why.Advice, "kill -CONT") {
		t.Errorf("the cause is %v", why)
	}
}
