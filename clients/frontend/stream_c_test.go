package frontend_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ringlet/testkit/compiled"
	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
)

// peer is a readout unit as docs/format/frames.md draws version 2, written by hand.
type peer struct {
	t    *testing.T
	l    net.Listener
	conn net.Conn
	kind byte // of banks, in the hello
	data []byte
}

func newPeer(t *testing.T, network string) (*peer, string) {
	t.Helper()
	at := "127.0.0.1:0"
	if network == "unix" {
		at = filepath.Join(must.MemoryDir(t), "s")
	}
	l, err := net.Listen(network, at)
	must.OK(t, err)
	p := &peer{t: t, l: l, kind: 7}
	t.Cleanup(func() {
		_ = l.Close()
		if p.conn != nil {
			_ = p.conn.Close()
		}
	})
	return p, network + ":" + l.Addr().String()
}

// accept takes a connection and its hello.
func (p *peer) accept() {
	p.t.Helper()
	if p.conn != nil {
		_ = p.conn.Close()
	}
	var err error
	p.conn, err = p.l.Accept()
	must.OK(p.t, err)
	hello := make([]byte, 24+4+len("telescope"))
	_, err = io.ReadFull(p.conn, hello)
	must.OK(p.t, err)
	want := "RLFH\x02" + string([]byte{p.kind}) + "\xff\xff" + strings.Repeat("\x00", 8) +
		"\x0d\x00\x00\x00\x00\x00\x00\x00\x01\x00\x09\x00telescope"
	if string(hello) != want {
		p.t.Fatalf("hello %q, want %q", hello, want)
	}
}

func (p *peer) answer(code uint8, a, b uint64, c, d uint32, sentence string) {
	h := append([]byte("RLFA\x02"), code)
	h = binary.LittleEndian.AppendUint16(h, uint16(len(sentence)))
	h = binary.LittleEndian.AppendUint64(h, a)
	h = binary.LittleEndian.AppendUint64(h, b)
	h = binary.LittleEndian.AppendUint32(h, c)
	h = binary.LittleEndian.AppendUint32(h, d)
	_, _ = p.conn.Write(append(h, sentence...)) // what it lacks is found by what it says
}

// raw reads a frame and checks its header, and says its event and whether it is the end.
func (p *peer) raw() (uint64, bool) {
	p.t.Helper()
	h := make([]byte, 20)
	_, err := io.ReadFull(p.conn, h)
	must.OK(p.t, err)
	p.data = make([]byte, min(binary.LittleEndian.Uint32(h[8:]), 65535))
	_, err = io.ReadFull(p.conn, p.data)
	must.OK(p.t, err)
	sum := crc32.Checksum(append(h[:16:16], p.data...), crc32.MakeTable(crc32.Castagnoli))
	if binary.LittleEndian.Uint32(h[16:]) != sum || string(h[14:16]) != "FR" {
		p.t.Fatalf("header %x, %d bytes, checksum %x", h, len(p.data), sum)
	}
	return binary.LittleEndian.Uint64(h), h[12] == 2
}

// frame reads one of stream.c, and checks its data.
func (p *peer) frame(size int) (uint64, bool) {
	p.t.Helper()
	event, end := p.raw()
	want := append(binary.LittleEndian.AppendUint64(nil, event), bytes.Repeat([]byte{byte(event)}, size-8)...)
	if end {
		want = nil
	}
	if !bytes.Equal(p.data, want) {
		p.t.Fatalf("event %d has %d bytes: %.40x", event, len(p.data), p.data)
	}
	return event, end
}

func (p *peer) expect(from, to uint64, size int) {
	p.t.Helper()
	for want := from; want < to; want++ {
		if event, end := p.frame(size); event != want || end {
			p.t.Fatalf("event %d, end %v; want event %d", event, end, want)
		}
	}
}

func (p *peer) expectEnd(want uint64) {
	p.t.Helper()
	if event, end := p.frame(8); event != want || !end {
		p.t.Fatalf("event %d, end %v; want the end at %d", event, end, want)
	}
}

// TestStreamInC: the connection breaks within the run, and again before the end is acknowledged; each fragment comes
// once, and the front-end is told what was given up. The short form has each language, and each network, once.
func TestStreamInC(t *testing.T) {
	programs := map[string]func() string{
		"C":   func() string { return compiled.C(t, "../c", "testdata/stream.c") },
		"C++": func() string { return compiled.CXX(t, "../c", "testdata/stream.c") },
	}
	for language, program := range programs {
		for _, network := range []string{"tcp", "unix"} {
			if testing.Short() && (language == "C") != (network == "unix") {
				continue
			}
			t.Run(language+" over "+network, func(t *testing.T) {
				p, address := newPeer(t, network)
				const events, size = 300, 1000 // more than it keeps
				c := start(t, []string{program()}, address, "-1", fmt.Sprint(events), fmt.Sprint(size), "60000")
				p.accept()
				p.answer(0, 0, 12, 1<<16, 65535, "")
				p.answer(99, 1, 2, 3, 4, "of a later release")
				if said := c.line(t); said != "next 0 run 12" {
					t.Errorf("%q", said)
				}
				p.expect(0, 60, size)
				p.answer(7, 3, 5, 1, 2, "too late")
				p.answer(1, 40, 0, 0, 0, "")
				p.accept()
				p.answer(0, 60, 12, 1<<16, 65535, "")
				p.expect(60, 120, size)
				p.answer(1, 120, 0, 0, 0, "")
				p.expect(120, 240, size)
				p.answer(1, 1<<60, 0, 0, 0, "") // more than it sent: of no more than that
				p.expect(240, events, size)
				p.expectEnd(events)
				p.accept()
				p.answer(0, events, 12, 1<<16, 65535, "")
				p.expectEnd(events)
				p.answer(8, events, 0, 0, 0, "")
				p.answer(1, events, 0, 0, 0, "")
				if said := c.line(t); said != "given up 3 5 1 2 too late" {
					t.Errorf("%q", said)
				}
				if said := c.line(t); said != "safe 300 given up 2 connected 3" {
					t.Errorf("%q", said)
				}
				if said := c.line(t); !strings.Contains(said, "the first of them are those of events from 3 up to 4: too late") {
					t.Errorf("%q", said)
				}
				must.OK(t, patiently.Exit(t, c.Cmd))
			})
		}
	}
}

// TestStreamExampleInC: the program in docs/clients.md does what that page says, in C and C++.
func TestStreamExampleInC(t *testing.T) {
	page, err := os.ReadFile("../../docs/clients.md")
	must.OK(t, err)
	_, text, _ := strings.Cut(string(page), "## A stream in C and C++")
	_, text, _ = strings.Cut(text, "```c\n")
	text, _, _ = strings.Cut(text, "```")
	if n := strings.Count(text, "\n"); n == 0 || n > 20 {
		t.Fatalf("the page has a program of %d lines", n)
	}
	file := filepath.Join(t.TempDir(), "example.c")
	must.OK(t, os.WriteFile(file, []byte(text), 0o600))
	p, address := newPeer(t, "tcp")
	p.kind = 255
	for _, program := range []string{compiled.C(t, "../c", file), compiled.CXX(t, "../c", file)} {
		c := start(t, []string{program}, address, "50")
		p.accept()
		p.answer(0, 20, 12, 1<<16, 65535, "")
		for want := uint64(20); want <= 50; want++ {
			if event, end := p.raw(); event != want || end != (want == 50) {
				t.Fatalf("event %d, end %v; want %d", event, end, want)
			}
		}
		p.answer(8, 50, 0, 0, 0, "")
		p.answer(1, 50, 0, 0, 0, "")
		must.OK(t, patiently.Exit(t, c.Cmd))
	}
}

// TestStreamInCSaysWhatIsLost: each way in which it cannot go on is an error that says so, within its time.
func TestStreamInCSaysWhatIsLost(t *testing.T) {
	program := compiled.C(t, "../c", "testdata/stream.c")
	complete := func(p *peer) { // ten fragments and the end came
		p.answer(0, 0, 12, 0, 65535, "")
		p.expect(0, 10, 8)
		p.expectEnd(10)
	}
	for name, c := range map[string]struct {
		first string
		ms    string
		peer  func(p *peer)
		want  string
	}{
		"the end is not taken": {"0", "300", func(p *peer) {
			p.answer(0, 0, 12, 0, 65535, "")
			p.expect(0, 10, 8)
			p.answer(1, 10, 0, 0, 0, "")
		}, "error -7: the run ends at event 10, which Ringlet has not taken, and events from 10 on are not known to be safe"},
		"not all is safe": {"0", "300", func(p *peer) {
			complete(p)
			p.answer(8, 10, 0, 0, 0, "")
			p.answer(1, 4, 0, 0, 0, "")
		}, "error -7: the run ends at event 10, which Ringlet has taken, and events from 4 on are not known to be safe"},
		"the last are given up, and never below what is safe": {"0", "60000", func(p *peer) {
			complete(p)
			p.answer(7, 8, 10, 5, 2, "a number that nobody believes")
			p.answer(7, 4, 8, 5, 4, "a number that nobody believes")
			p.answer(1, 4, 0, 0, 0, "")
			p.answer(8, 10, 0, 0, 0, "")
		}, "safe 4 given up 6 connected 1"},
		"some of a range are given up": {"0", "300", func(p *peer) {
			complete(p)
			p.answer(7, 4, 10, 5, 5, "a number that nobody believes")
			p.answer(1, 4, 0, 0, 0, "")
			p.answer(8, 10, 0, 0, 0, "")
		}, "error -7: the run ends at event 10, which Ringlet has taken, and events from 4 on are not known to be safe"},
		"the run is over, and another one has begun": {"0", "60000", func(p *peer) {
			complete(p)
			p.answer(8, 10, 0, 0, 0, "")
			p.answer(1, 4, 0, 0, 0, "")
			p.accept()
			p.answer(0, 0, 13, 0, 65535, "")
		}, "error -7: run 12 is over: its end at event 10 was taken, and events from 4 on are not known to be safe"},
		"numbers anew": {"0", "60000", func(p *peer) {
			p.answer(0, 1000, 12, 0, 65535, "")
		}, "error -4: event numbers must grow: event 0 comes where 1000 or a higher one is next"},
		"refused": {"0", "60000", func(p *peer) {
			p.answer(3, 0, 0, 0, 0, "this input is source 5")
		}, "refuses this front-end: this input is source 5"},
		"refused by an older release": {"0", "60000", func(p *peer) {
			h := append([]byte("RLFA\x01\x02\x0c\x00"), make([]byte, 16)...)
			_, _ = p.conn.Write(append(h, "version 2 ha"...))
		}, "refuses this front-end: version 2 ha"},
		"no Ringlet": {"0", "60000", func(p *peer) {
			_, _ = p.conn.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
		}, "what answers there is no readout unit of Ringlet"},
		"a sentence beyond the bound": {"0", "60000", func(p *peer) {
			_, _ = p.conn.Write([]byte("RLFA\x02\x00\xff\xff"))
		}, "what answers there is no readout unit of Ringlet"},
		"larger than it takes": {"0", "60000", func(p *peer) {
			p.answer(0, 0, 12, 0, 4, "")
		}, "error -5: the fragment of event 0 has 8 bytes, and 4 are the most"},
	} {
		t.Run(name, func(t *testing.T) {
			p, address := newPeer(t, "tcp")
			front := start(t, []string{program}, address, c.first, "10", "8", c.ms)
			p.accept()
			c.peer(p)
			said := front.line(t)
			for strings.HasPrefix(said, "next") || strings.HasPrefix(said, "given up") {
				said = front.line(t)
			}
			if !strings.Contains(said, c.want) {
				t.Errorf("it said %q, want %q", said, c.want)
			}
			_ = patiently.Exit(t, front.Cmd)
		})
	}
	for address, want := range map[string]string{
		"udp:host:1":                       "a stream cannot go to udp:host:1",
		"tcp:host":                         "a stream cannot go to tcp:host",
		"unix:" + strings.Repeat("x", 200): "a stream cannot go to unix:",
	} {
		if said := start(t, []string{program}, address, "0", "1", "8", "1").line(t); !strings.Contains(said, want) {
			t.Errorf("%s: %q", address, said)
		}
	}
}

// TestStreamInCAgainstNonsense: whatever answers, the front-end ends within its time, with a sentence.
func TestStreamInCAgainstNonsense(t *testing.T) {
	program := compiled.C(t, "../c", "testdata/stream.c")
	for round := range 20 {
		p, address := newPeer(t, "tcp")
		front := start(t, []string{program}, address, "-1", "5", "8", "100")
		p.accept()
		for i := range 40 {
			a, b := rand.Uint64()>>(rand.UintN(64)), rand.Uint64()>>(rand.UintN(64))
			code := uint8(rand.UintN(10))
			if i == 0 || code >= 2 && code <= 6 {
				code = uint8(i) & 8 // accepted, and the end taken
			}
			p.answer(code, a, b, rand.Uint32(), rand.Uint32(), strings.Repeat("x", rand.IntN(513)))
		}
		for front.lines.Scan() {
			if text := front.lines.Text(); strings.HasPrefix(text, "error") || strings.HasPrefix(text, "safe") {
				break
			}
		}
		if err := patiently.Exit(t, front.Cmd); err != nil && front.ProcessState.ExitCode() != 1 {
			t.Fatalf("round %d: %v", round, err)
		}
	}
}
