package backlog

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ringlet/builderunit/sink"
	"ringlet/recording"
	"ringlet/testkit/cases"
	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
)

// The children of TestKilled are this test binary again, told so by these variables.
const (
	childDir  = "RINGLET_TEST_BACKLOG_DIR"
	childKey  = "RINGLET_TEST_BACKLOG_KEY"
	childWhat = "RINGLET_TEST_BACKLOG_WHAT" // drain, or write FROM TO ATTEMPT
)

// TestChild is a builder unit's output, or a drain, until it is killed.
func TestChild(t *testing.T) {
	dir := os.Getenv(childDir)
	if dir == "" {
		t.Skip("SKIPPED: it is the child of TestKilled")
	}
	key, err := recording.ParseKey(os.Getenv(childKey))
	must.OK(t, err)
	r := &rig{t: t, dir: dir, about: recording.Manifest{Key: key}}
	r.runDir = recording.RunDir(r.path("buffer"), testRun)
	if os.Getenv(childWhat) == "drain" {
		fmt.Println("begun")
		c := r.config(func() { time.Sleep(20 * time.Microsecond) })
		c.WriterTimeout = 200 * time.Millisecond // what a killed writer left is closed, so that it does not fill the backlog
		_, err := New(c).Run(t.Context())
		must.OK(t, err)
		return
	}
	var from, to uint64
	var attempt uint32
	_, err = fmt.Sscanf(os.Getenv(childWhat), "write %d %d %d", &from, &to, &attempt)
	must.OK(t, err)
	s := r.writer(int(attempt % 3))
	b, err := sink.NewBacklog(s, 100_000, r.config(nil).Log)
	must.OK(t, err)
	for k := from; k < to; k += 10 {
		r.write(b, k, min(k+10, to), attempt)
		must.OK(t, b.Flush())
		fmt.Println("flushed", min(k+10, to))
	}
	_, err = b.Finish()
	must.OK(t, err)
	fmt.Println("finished")
}

// child is a process that this test has started.
type child struct {
	*exec.Cmd
	lines chan string
}

func (r *rig) child(what string) *child {
	r.t.Helper()
	c := &child{exec.Command(os.Args[0], "-test.run", "^TestChild$", "-test.v"), make(chan string, 1<<16)}
	c.Env = append(os.Environ(), childDir+"="+r.dir, childKey+"="+r.about.Key.String(), childWhat+"="+what)
	c.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
	out, err := c.StdoutPipe()
	must.OK(r.t, err)
	must.OK(r.t, c.Start())
	go func() {
		defer close(c.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			c.lines <- s.Text()
		}
	}()
	return c
}

// kill kills the child, and gives what it had said.
func (c *child) kill() (said []string) {
	_ = c.Process.Kill()        // it may have ended
	for line := range c.lines { // bounded by the kernel: its output ends with it
		said = append(said, line)
	}
	_ = c.Wait() // bounded by the kernel: it was killed
	return said
}

// TestKilled kills the first step's output and the second filter, at random moments and often; each MEP comes to the
// right output once, those that were written twice too. The backlog is bounded, so that each waits for the other.
func TestKilled(t *testing.T) {
	r := newRig(t, 100_000)
	rnd := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 63))
	killMEPs := cases.Count[uint64](4000, 800)
	drain := r.child("drain")
	defer func() { drain.kill() }()
	kills, drainKills := 0, 0
	at := uint64(0)
	for attempt := uint32(1); at < killMEPs; attempt++ {
		if attempt > 500 {
			t.Fatalf("it does not go on: %d MEPs", at)
		}
		w := r.child(fmt.Sprintf("write %d %d %d", at, killMEPs, attempt))
		end, lines := time.After(patiently.LongTimeout), rnd.IntN(40)
		var last string
		for ended, more := false, true; more && !ended; {
			select { // bounded by end
			case <-end:
				t.Fatalf("a writer says nothing more behind %q: the drain makes no room", last)
			case _, ok := <-drain.lines:
				if !ok { // nobody wrote for so long that it takes the run for over
					drain.kill()
					drain = r.child("drain")
				}
			case line, ok := <-w.lines:
				if more = ok; ok {
					last = line
					lines--
					ended = lines < 0 && last != "finished"
				}
			}
		}
		if rnd.IntN(2) == 0 {
			drain.kill()
			drainKills++
			drain = r.child("drain")
		}
		for _, line := range append([]string{last}, w.kill()...) {
			if n, ok := strings.CutPrefix(line, "flushed "); ok {
				at, _ = strconv.ParseUint(n, 10, 64)
			}
		}
		at -= min(at, 5) // and some are built once more, as a scheduler has it that did not hear of them
		if last == "finished" {
			break
		}
		kills++
		if at >= killMEPs-5 {
			at = killMEPs
		}
	}
	drain.kill()
	_, err := recording.Recover(t.Context(), r.runDir)
	must.OK(t, err)
	c, err := recording.Read(t.Context(), r.runDir)
	must.OK(t, err)
	if c.MEPSet.MEPs() != killMEPs || c.ProblemCount() > 0 {
		t.Fatalf("%d MEPs are in the backlog, or drained; %d problems", c.MEPSet.MEPs(), c.ProblemCount())
	}
	r.concluded(killMEPs)
	got, err := New(r.config(nil)).Run(t.Context())
	must.OK(t, err)
	r.drained(killMEPs)
	d := got.Decisions
	if d.Events()-d.Copies != killMEPs*testPacking || d.Damaged > 0 || got.UndrainedSegments > 0 ||
		got.RemovedSegments != got.Segments {
		t.Errorf("%+v", got)
	}
	t.Logf("%d writers and %d drains killed; %+v", kills, drainKills, got)
}

// TestFullDisk fills the disk of the outputs: the drain ends with an error and has lost nothing. With room it goes on.
func TestFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: only root can mount a small disk")
	}
	r := newRig(t, 1<<20)
	r.recorded(2000)
	disk := r.disk("300k")
	c := r.config(nil)
	c.RejectedOutput.Dir = filepath.Join(disk, "rejected")
	got, err := New(c).Run(t.Context())
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	if got.Segments == 0 || got.UndrainedSegments == 0 {
		t.Errorf("%+v", got)
	}
	if _, err := New(c).Run(t.Context()); !errors.Is(err, unix.ENOSPC) { // and once more, without room
		t.Fatal(err)
	}
	must.OK(t, unix.Mount("none", disk, "tmpfs", unix.MS_REMOUNT, "size=20m"))
	if _, err = New(c).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	must.OK(t, os.CopyFS(r.path("rejected"), os.DirFS(c.RejectedOutput.Dir)))
	r.drained(2000)
}

// disk mounts a small disk, which is there as long as the test.
func (r *rig) disk(size string) (dir string) {
	r.t.Helper()
	if os.Geteuid() != 0 {
		r.t.Skip("SKIPPED: only root can mount a small disk")
	}
	dir = r.path("disk")
	must.OK(r.t, os.Mkdir(dir, 0o700))
	if err := unix.Mount("none", dir, "tmpfs", 0, "size="+size); err != nil {
		r.t.Skip("SKIPPED: a small disk cannot be mounted here: ", err)
	}
	r.t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

// TestAFullBacklogIsDrained holds that a disk with no room left but what the backlog takes gets room by draining.
func TestAFullBacklogIsDrained(t *testing.T) {
	r := newRig(t, 1<<20)
	disk := r.disk("20m")
	must.OK(t, os.RemoveAll(r.path("buffer")))
	must.OK(t, os.Symlink("disk", r.path("buffer")))
	_, err := recording.OpenRun(r.path("buffer"), r.about, false)
	must.OK(t, err)
	b, err := sink.NewBacklog(r.writer(0), 1<<30, r.config(nil).Log)
	must.OK(t, err)
	r.write(b, 0, 2000, 1)
	_, err = b.Finish()
	must.OK(t, err)
	r.concluded(2000)
	ballast, err := os.Create(filepath.Join(disk, "ballast"))
	must.OK(t, err)
	for err == nil {
		_, err = ballast.Write(make([]byte, 4096))
	}
	must.OK(t, ballast.Close())
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	got, err := New(r.config(nil)).Run(t.Context())
	must.OK(t, err)
	if got.UndrainedSegments > 0 || got.RemovedSegments != got.Segments {
		t.Errorf("%+v", got)
	}
	r.drained(2000)
}
