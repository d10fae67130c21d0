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

// TestDoneBehindFragments: a source whose front-end is done has arrived when its last fragments are taken; the front-end
// may be gone by then.
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
			for a.Code == codeSource || a.Code == codeCommand {
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
