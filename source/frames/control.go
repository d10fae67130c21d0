package frames

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ringlet/source/live"
)

// The control socket of a program: the life of the run in lines (docs/format/frames.md), for a program that reads no
// answers.

const (
	// controlVariable is the environment variable with the number of the program's file descriptor.
	controlVariable = "RINGLET_CONTROL_FD"
	controlFD       = 3 // the first of a command's extra files
	// maxControlLine is the longest line of a program in bytes, and maxControlReplies how many replies wait until what
	// came before them on the standard output is read.
	maxControlLine    = 1024
	maxControlReplies = 64
)

// controlReply is a line of a program: that it follows the run, or its reply to a command; or the end of the lines.
type controlReply struct {
	follows bool
	over    bool
	ticket  uint64
	reply   live.Reply
	why     string
	after   uint64 // bytes of standard output that come before it, or a few more
}

var errNoControlLine = errors.New("a program says follow, ready TICKET, failed TICKET WHY or done TICKET")

// parseControlLine reads a line of a program, without its end.
func parseControlLine(line string) (c controlReply, err error) {
	word, rest, _ := strings.Cut(line, " ")
	ticket, why, _ := strings.Cut(rest, " ")
	switch word {
	case "follow":
		if rest != "" {
			return c, errNoControlLine
		}
		return controlReply{follows: true}, nil
	case "ready":
		c.reply = live.ReplyReady
	case "failed":
		c.reply, c.why = live.ReplyFailed, printable([]byte(truncateSentence(why)))
	case "done":
		c.reply = live.ReplyDone
	default:
		return c, errNoControlLine
	}
	if c.ticket, err = strconv.ParseUint(ticket, 10, 64); err != nil || c.reply != live.ReplyFailed && why != "" {
		return controlReply{}, errNoControlLine
	}
	return c, nil
}

// control is the control socket of one run of a program.
type control struct {
	feed      *feed
	conn      *os.File // Ringlet's end
	commanded chan struct{}
	over      chan struct{}
	wg        sync.WaitGroup

	// guarded by feed.mu
	follows bool   // the program has said so
	lines   []byte // that it is to be told
}

// newControl makes a control socket, and returns the program's end with it.
func newControl(f *feed) (*control, *os.File, error) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	program := os.NewFile(uintptr(ends[1]), "control")
	if err := unix.SetNonblock(ends[0], true); err != nil {
		return nil, nil, errors.Join(err, unix.Close(ends[0]), program.Close())
	}
	return &control{
		feed:      f,
		conn:      os.NewFile(uintptr(ends[0]), "control"),
		commanded: make(chan struct{}, 1),
		over:      make(chan struct{}),
	}, program, nil
}

// begin serves the program until end. Replies count when what came before them through p is read.
func (c *control) begin(p *pipes) {
	c.feed.mu.Lock()
	c.feed.control = c
	c.feed.mu.Unlock()
	p.takeReply = c.takeReply
	c.wg.Go(func() { c.receive(p) })
	c.wg.Go(c.send)
}

// end closes the socket.
func (c *control) end() {
	c.feed.mu.Lock()
	c.feed.control = nil
	c.feed.mu.Unlock()
	close(c.over)
	_ = c.conn.Close()
	c.wg.Wait()
}

// receive reads lines until the program closes its end, or breaks the format: then it follows the run no more.
func (c *control) receive(p *pipes) {
	lines := bufio.NewScanner(c.conn)
	lines.Buffer(make([]byte, 0, maxControlLine), maxControlLine)
	var why error
	for why == nil && lines.Scan() {
		var one controlReply
		if one, why = parseControlLine(lines.Text()); why == nil {
			why = p.queueReply(one)
		}
	}
	if why = errors.Join(why, lines.Err()); why != nil && !errors.Is(why, os.ErrClosed) &&
		!errors.Is(why, syscall.ECONNRESET) { // it ended with a command that it had not read
		c.feed.countRefusal("the program's control", why.Error())
		c.feed.logEvent(slog.LevelWarn, "what a program says by its control descriptor is not understood: it follows the "+
			"run no more", "why", why)
	}
	p.endReplies()
}

// takeReply handles a line, when all that the program wrote before it is read.
func (c *control) takeReply(one controlReply) {
	if one.follows || one.over {
		c.setFollows(one.follows)
		return
	}
	c.feed.stepLife(live.LifeInput{Event: live.FrontendReplied, Ticket: one.ticket, Reply: one.reply, Why: one.why})
}

// setFollows notes whether the program follows the run. An attached one begins its life anew.
func (c *control) setFollows(follows bool) {
	f := c.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	if c.follows == follows || f.control != c {
		return
	}
	c.follows = follows
	if f.session != nil {
		f.stepLifeLocked(live.LifeInput{Event: live.FrontendAttached, Follows: follows || f.session.follows})
	}
}

// isFollowed says that the program follows the run by its control socket. feed.mu is held.
func (c *control) isFollowed() bool { return c != nil && c.follows }

// notify tells the program commands; false: it does not follow the run by its control socket. feed.mu is held.
func (c *control) notify(commands []live.TicketedCommand) bool {
	if !c.isFollowed() {
		return false
	}
	for _, x := range commands {
		c.lines = fmt.Appendf(c.lines, "%v %d %d\n", x.Command, x.Ticket, c.feed.set.Run)
	}
	wake(c.commanded)
	return true
}

// send writes commands until the end. A program that does not read them for lingerTimeout, which takes thousands, is
// told no more.
func (c *control) send() {
	for {
		select {
		case <-c.commanded:
		case <-c.over:
			return
		}
		c.feed.mu.Lock()
		lines := c.lines
		c.lines = nil
		c.feed.mu.Unlock()
		_ = c.conn.SetWriteDeadline(time.Now().Add(lingerTimeout))
		if _, err := c.conn.Write(lines); err != nil {
			c.setFollows(false)
			return
		}
	}
}

// pipes are the pipes to the standard output and input of a program.
type pipes struct {
	r, w      *os.File
	takeReply func(controlReply) // set before the first Read
	over      chan struct{}      // closed when no reply comes any more

	mu       sync.Mutex // guards what follows
	replies  []controlReply
	got      uint64    // bytes read
	wanted   int       // bytes that the present Read may bring
	deadline time.Time // of Read, as it was set
	woken    bool      // Read is to return for replies
}

// queueReply has Read take a reply behind all that was written before it.
func (p *pipes) queueReply(one controlReply) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.replies) == maxControlReplies {
		return fmt.Errorf("%d replies wait until its standard output is read: a program replies once to each command",
			len(p.replies))
	}
	one.after = p.got + uint64(p.wanted) + uint64(readable(p.r))
	p.replies, p.woken = append(p.replies, one), true
	return p.r.SetReadDeadline(time.Unix(1, 0))
}

// endReplies has Read take the end of the replies.
func (p *pipes) endReplies() {
	defer close(p.over)
	p.mu.Lock()
	defer p.mu.Unlock()
	after := p.got + uint64(p.wanted) + uint64(readable(p.r))
	p.replies, p.woken = append(p.replies, controlReply{over: true, after: after}), true
	_ = p.r.SetReadDeadline(time.Unix(1, 0))
}

// takeReplies takes the replies behind what was read, or all if nothing is there to read: who calls Read has handled
// all that it has read.
func (p *pipes) takeReplies() {
	p.mu.Lock()
	n := len(p.replies)
	if n > 0 && readable(p.r) > 0 {
		n = 0
		for n < len(p.replies) && p.replies[n].after <= p.got {
			n++
		}
	}
	replies := p.replies[:n:n]
	p.replies = p.replies[n:]
	if p.woken {
		p.woken = false
		_ = p.r.SetReadDeadline(p.deadline)
	}
	p.mu.Unlock()
	for _, one := range replies {
		p.takeReply(one)
	}
}

// readable is how many bytes can be read at once.
func readable(f *os.File) (n int) {
	if raw, err := f.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			n, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ)
		})
	}
	return n
}

func (p *pipes) Read(b []byte) (int, error) {
	for {
		p.takeReplies()
		p.noteRead(0, len(b))
		n, err := p.r.Read(b)
		p.noteRead(n, 0)
		switch {
		case errors.Is(err, io.EOF): // the program has ended, and its last reply may still be under way
			select {
			case <-p.over:
			case <-time.After(lingerTimeout):
			}
			p.takeReplies()
		case n == 0 && errors.Is(err, os.ErrDeadlineExceeded) && p.isWoken():
			continue
		}
		return n, err
	}
}

// noteRead notes how many bytes a Read has brought, and how many the next one may bring.
func (p *pipes) noteRead(got, wanted int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.got, p.wanted = p.got+uint64(max(0, got)), wanted
}

// isWoken says that Read has returned for replies.
func (p *pipes) isWoken() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.woken
}

func (p *pipes) SetReadDeadline(t time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deadline = t
	if p.woken {
		return nil // takeReplies sets it
	}
	return p.r.SetReadDeadline(t)
}

func (p *pipes) Write(b []byte) (int, error)        { return p.w.Write(b) }
func (p *pipes) SetWriteDeadline(t time.Time) error { return p.w.SetWriteDeadline(t) }
func (p *pipes) CloseWrite() error                  { return p.w.Close() }
func (p *pipes) Close() error                       { return errors.Join(p.r.Close(), p.w.Close()) }
