package frames

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ringlet/source/live"
	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
)

var follower = hello{Version: currentVersion, Type: noType, Source: anySource, Follows: true}

// message is a frame by which a front-end answers a command.
func message(ticket uint64, kind uint8, why string) []byte {
	return appendFrame(nil, frame{Event: ticket, Flags: flagMessage, Type: kind, Data: []byte(why)})
}

// TestLifeOnTheWire holds what a front-end that follows the run is sent, byte for byte but for the layout, and that
// its answers move the source.
func TestLifeOnTheWire(t *testing.T) {
	set := settings("127.0.0.1:0")
	set.SourceName, set.Config = "tof", strings.Repeat("x", maxSentence+1)
	opened, err := OpenTCP(t.Context(), set)
	must.OK(t, err)
	t.Cleanup(func() { must.OK(t, opened.Close()) })
	f := opened.(*feed)
	p, a := connect(t, f, follower)
	if a.Code != codeAccepted {
		t.Fatal(a)
	}
	expect := func(want answer) {
		t.Helper()
		if got := p.answer(); got != want {
			t.Fatalf("the answer is %+v, and not %+v", got, want)
		}
	}
	name, hash, _ := strings.Cut(f.describeSource()[0].Sentence, "\n")
	if name != "tof" || len(hash) != 64 {
		t.Errorf("the source is %q, with the hash %q", name, hash)
	}
	expect(answer{Code: codeSource, A: 7, B: 42, C: maxSentence + 1, Sentence: "tof\n" + hash})
	expect(answer{Code: codeConfig, Sentence: f.set.Config[1:]})
	expect(answer{Code: codeConfig, A: maxSentence, Sentence: "x"})
	expect(answer{Code: codeCommand, A: 1, B: 42, C: uint32(live.Prepare), D: uint32(live.Prepare)})
	expect(answer{Code: codeUnitBusy, B: 42})
	f.Want(live.Begin)
	p.send(message(1, uint8(live.ReplyReady), ""))
	expect(answer{Code: codeCommand, A: 2, B: 42, C: uint32(live.Begin), D: uint32(live.Begin)})
	p.send(message(1, uint8(live.ReplyReady), "")) // again
	p.send(events(0, 10))
	p.send(message(2, uint8(live.ReplyReady), ""))
	p.send(events(10, 20))
	collect(t, f, 0, 20)
	patiently.Until(t, "the source has begun", func() bool { return f.Life().Arrived })
	must.OK(t, p.Close())
	patiently.Until(t, "its front-end is gone", func() bool { return !f.Life().Attached })
	f.Want(live.Pause)
	p, a = connect(t, f, follower)
	if a.Code != codeAccepted || a.A != 20 {
		t.Fatal(a)
	}
	for range 3 {
		_ = p.answer() // the source again
	}
	expect(answer{Code: codeCommand, A: 3, B: 42, C: uint32(live.Prepare), D: uint32(live.Pause)})
}

// TestDoneBehindFragments: a source whose front-end is done has arrived when its last fragments are taken, and the
// front-end may be gone by then.
func TestDoneBehindFragments(t *testing.T) {
	opened, err := OpenTCP(t.Context(), settings("127.0.0.1:0"))
	must.OK(t, err)
	t.Cleanup(func() { must.OK(t, opened.Close()) })
	f := opened.(*feed)
	p, _ := connect(t, f, follower)
	f.Want(live.Begin)
	f.Want(live.End)
	p.send(append(events(0, 10), message(1, uint8(live.ReplyReady), "")...))
	p.send(append(events(10, 20), message(2, uint8(live.ReplyDone), "")...))
	patiently.Until(t, "its last fragments wait", func() bool { return f.Life().Untaken })
	if f.Life().Arrived {
		t.Error("it has arrived")
	}
	must.OK(t, p.Close())
	patiently.Until(t, "its front-end is gone", func() bool { return !f.Life().Attached })
	if s := f.Life(); s.Arrived || !s.Untaken {
		t.Errorf("its front-end is gone: %+v", s)
	}
	collect(t, f, 0, 20)
	patiently.Until(t, "it has arrived", func() bool { return f.Life().Arrived && !f.Life().Untaken })
}

// TestBusyOnTheWire: a front-end that follows the run hears of each state of the readout unit once; its own counts
// until it is gone. One that follows nothing hears nothing.
func TestBusyOnTheWire(t *testing.T) {
	set, says := settings("127.0.0.1:0"), make(chan bool, 10)
	set.OnBusy = func(busy bool) { says <- busy }
	opened, err := OpenTCP(t.Context(), set)
	must.OK(t, err)
	t.Cleanup(func() { must.OK(t, opened.Close()) })
	f := opened.(*feed)
	p, _ := connect(t, f, follower)
	next := func(want uint64) {
		t.Helper()
		a := p.answer()
		for a.Code == codeSource || a.Code == codeCommand {
			a = p.answer()
		}
		if want := (answer{Code: codeUnitBusy, A: want, B: 42}); a != want {
			t.Fatalf("the answer is %+v, and not %+v", a, want)
		}
	}
	next(0)
	f.SetBusy(live.BusyState{Causes: 1 << live.BusyBuilders})
	next(1)
	f.SetBusy(live.BusyState{Causes: 1 << live.BusyBuilders})
	f.SetBusy(live.BusyState{Causes: 1<<live.BusyBuilders | 1<<live.BusyIntake})
	next(3)
	p.send(append(message(0, messageBusy, ""), message(0, messageBusy, "")...))
	p.send(append(message(0, messageFree, ""), message(0, messageBusy, "")...))
	for _, want := range []bool{true, false, true} {
		if patiently.Receive(t, says, "it says nothing") != want {
			t.Fatalf("it does not say %v", want)
		}
	}
	must.OK(t, p.Close())
	if patiently.Receive(t, says, "it is busy though it is gone") {
		t.Fatal("it is busy though it is gone")
	}
	p, _ = connect(t, f, plain)
	f.SetBusy(live.BusyState{})
	f.SetSafeBelow(1)
	if a := p.answer(); a.Code != codeAcknowledged {
		t.Errorf("one that follows nothing hears %+v", a)
	}
}

// TestBadMessages: what is no message is refused with a sentence, and the flag is unknown to those that follow nothing.
func TestBadMessages(t *testing.T) {
	for name, c := range map[string]struct {
		as   hello
		what []byte
		want string
	}{
		"unknown kind":   {follower, message(1, 9, ""), "message 9 is unknown"},
		"too long":       {follower, message(1, 2, strings.Repeat("x", maxSentence+1)), "at most 512 bytes"},
		"another flag":   {follower, appendFrame(nil, frame{Flags: flagMessage | flagEnd, Type: 1}), "no other flag"},
		"follows no run": {plain, message(1, 1, ""), "unknown flags, 0x20"},
	} {
		t.Run(name, func(t *testing.T) {
			f := openTCP(t)
			p, _ := connect(t, f, c.as)
			p.send(c.what)
			a := p.answer()
			for a.Code == codeSource || a.Code == codeCommand || a.Code == codeUnitBusy {
				a = p.answer()
			}
			if a.Code != codeBadFormat || !strings.Contains(a.Sentence, c.want) {
				t.Errorf("the answer is %+v", a)
			}
		})
	}
}

// TestExecEnvironment: a program finds the run in its environment.
func TestExecEnvironment(t *testing.T) {
	dir := t.TempDir()
	stream(t, dir, "all", appendHello(nil, plain), events(0, 3), endFrame(3))
	set := settings(fmt.Sprintf(`echo "$RINGLET_RUN $RINGLET_SOURCE $RINGLET_SOURCE_NAME" >'%[1]s/env'; printf %%s "$RINGLET_CONFIG" `+
		`>'%[1]s/config'; cat '%[1]s/all'`, dir))
	set.SourceName, set.Config = "tof", "hv: [1200, \"'$PATH\"]\n"
	f, err := OpenExec(t.Context(), set)
	must.OK(t, err)
	collect(t, f, 0, 3)
	ended(t, f)
	must.OK(t, f.Close())
	for name, want := range map[string]string{"env": "42 7 tof\n", "config": set.Config} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s has %q, and not %q", name, got, want)
		}
	}
}

// TestControlOfAProgram: a program in the shell follows a run by its control descriptor. What it says counts when all
// that it wrote before is read.
func TestControlOfAProgram(t *testing.T) {
	dir := t.TempDir()
	stream(t, dir, "hello", appendHello(nil, plain))
	stream(t, dir, "begun", events(0, 100))
	stream(t, dir, "last", events(100, 5000))
	set := settings(fmt.Sprintf(`cd '%s'; cat hello; echo follow >&$RINGLET_CONTROL_FD
while read -r command ticket run <&3; do
	echo "$command $run" >>told
	case $command in
	prepare) echo "failed $ticket no gas" >&3; until test -e gas; do sleep 0.01; done; echo "ready $ticket" >&3 ;;
	begin) cat begun; echo "ready $ticket" >&3 ;;
	end) cat last; echo "done $ticket" >&3 ;;
	*) echo "ready $ticket" >&3 ;;
	esac
done`, dir))
	opened, err := OpenExec(t.Context(), set)
	must.OK(t, err)
	f := opened.(*feed)
	arrived := func() bool { return f.Life().Arrived }
	patiently.Until(t, "it has failed", func() bool { return f.Life().Failed == "no gas" })
	must.OK(t, os.WriteFile(filepath.Join(dir, "gas"), nil, 0o600))
	for _, c := range []live.Command{live.Prepare, live.Begin, live.Pause, live.Resume} {
		f.Want(c)
		patiently.Until(t, c.String(), arrived)
	}
	collect(t, f, 0, 100)
	f.Want(live.End)
	patiently.Until(t, "it is done", func() bool { return f.Life().Untaken || f.Life().Arrived })
	if s := f.Life(); !s.Follows || !s.Untaken || s.Arrived {
		t.Errorf("its last fragments wait: %+v", s)
	}
	collect(t, f, 100, 5000)
	patiently.Until(t, "all is taken", arrived)
	must.OK(t, f.Close())
	lines, err := os.ReadFile(filepath.Join(dir, "told"))
	must.OK(t, err)
	if want := "prepare 42\nbegin 42\npause 42\nresume 42\nend 42\n"; string(lines) != want {
		t.Errorf("it is told %q", lines)
	}
}

// TestBadControl: a program that says nonsense by its control descriptor follows the run no more, and its data count.
func TestBadControl(t *testing.T) {
	for name, line := range map[string]string{
		"nonsense": "follow\nget out", "a long line": "follow\nfailed 1 " + strings.Repeat("x", maxControlLine),
		"no ticket": "follow\nready", "too many": "follow" + strings.Repeat("\nready 1", maxControlReplies+2),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			stream(t, dir, "lines", []byte(line+"\n"))
			stream(t, dir, "all", appendHello(nil, plain), events(0, 100), endFrame(100))
			opened, err := OpenExec(t.Context(), settings(fmt.Sprintf(`cat '%[1]s/lines' >&3; cat '%[1]s/all'`, dir)))
			must.OK(t, err)
			f := opened.(*feed)
			patiently.Until(t, "it is refused", func() bool { return f.Stats().RefusedMessages == 1 })
			collect(t, f, 0, 100)
			ended(t, f)
			if f.Life().Follows {
				t.Error("it follows on")
			}
			must.OK(t, f.Close())
		})
	}
}

// FuzzControlLine: what is taken of a program's line is in it.
func FuzzControlLine(f *testing.F) {
	for _, line := range []string{"follow", "ready 1", "done 18446744073709551615", "failed 7 no gas", "ready -1", ""} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		c, err := parseControlLine(line)
		if err == nil && c.follows != (line == "follow") {
			t.Errorf("%q is %+v", line, c)
		}
		if err == nil && !c.follows && (c.reply == 0 || len(c.why) > maxSentence ||
			!strings.Contains(line, strings.TrimLeft(fmt.Sprint(c.ticket), "0"))) {
			t.Errorf("%q is %+v", line, c)
		}
	})
}
