package live

import (
	"errors"
	"fmt"
)

// Command is what a front-end that follows the run is told.
type Command uint8

// Commands. The value is that of the frames format.
const (
	Prepare Command = iota + 1 // make ready, and say so
	Begin                      // the run has begun: send
	Pause                      // send no more events for now
	Resume                     // go on
	End                        // the run ends: send what was taken, and say that it is done
)

var commandNames = [...]string{"", "prepare", "begin", "pause", "resume", "end"}

func (c Command) String() string {
	if int(c) < len(commandNames) {
		return commandNames[c]
	}
	return fmt.Sprintf("command %d", uint8(c))
}

// Reply is what a front-end answers to a command.
type Reply uint8

// Replies. The value is that of the frames format.
const (
	ReplyReady  Reply = iota + 1 // the command is carried out
	ReplyFailed                  // it cannot be
	ReplyDone                    // the command is End, and all that was taken is sent
)

var replyNames = [...]string{"", "ready", "failed", "done"}

func (r Reply) String() string { return replyNames[r] }

// errNoReply says that a reply is none of the known ones.
var errNoReply = errors.New("a front-end answers a command by ready, failed or done")

// ParseReply returns the reply with a number of the frames format.
func ParseReply(n uint8) (Reply, error) {
	if n == 0 || int(n) >= len(replyNames) {
		return 0, errNoReply
	}
	return Reply(n), nil
}

// TicketedCommand is a command as a front-end gets it. Its reply names the ticket.
type TicketedCommand struct {
	Ticket  uint64 // grows from command to command, over all connections
	Command Command
}

// LifeEvent is an input of a Life.
type LifeEvent uint8

// Inputs of a Life.
const (
	FrontendAttached LifeEvent = iota // Follows says whether it wants to hear commands
	FrontendGone
	RunWants        // the run wants the source to be where Command takes it: Prepare, Begin, Pause or End
	FrontendReplied // Reply to Ticket, with Why
	FrontendOver    // it has declared the end of its data
)

// LifeInput is one input of a Life. Each field names the events that fill it in.
type LifeInput struct {
	Event   LifeEvent
	Follows bool    // FrontendAttached
	Command Command // RunWants
	Ticket  uint64  // FrontendReplied
	Reply   Reply
	Why     string // FrontendReplied with ReplyFailed
}

// Life is what one source has of the run's life: where the run wants it, and how far its front-end is. It is a pure
// core; the zero value is a source without a front-end before the run has begun.
//
//	prepare ─ready► begin ─► pause ─► resume ─► …      end at any time
//
// A front-end hears a command only after it is ready for Prepare. One that comes in the middle of a run hears Prepare
// and, unless the run is paused, Begin.
type Life struct {
	wanted   Command // Prepare, Begin, Pause or End; 0: Prepare
	attached bool
	follows  bool
	ticket   uint64 // of the last command
	first    uint64 // ticket of the first command of the connection
	given    Command
	begun    bool   // the front-end was told Begin
	prepared bool   // it was ready for Prepare
	answered uint64 // the highest ticket that it has answered
	over     bool   // it has declared the end of its data
	failed   string
}

// LifeStatus is how far a source is.
type LifeStatus struct {
	Wanted   Command
	Attached bool // a front-end is attached
	Follows  bool // it hears commands, and answers them
	Untaken  bool // its data are over, and the readout unit has not taken all of them
	// Arrived: the source is where the run wants it, as far as anyone can tell. A front-end that does not follow the run
	// counts as ready when it is attached; where there is none, nobody has to be paused or ended. Where the data are over,
	// all are taken.
	Arrived bool
	Failed  string // why the front-end cannot do what it was told; "": it did not say so
}

// Step takes an input, and returns the commands that the front-end is to be told.
func (l *Life) Step(in LifeInput) []TicketedCommand {
	switch in.Event {
	case FrontendAttached:
		*l = Life{wanted: l.wanted, ticket: l.ticket, attached: true, follows: in.Follows, over: l.over}
	case FrontendGone:
		*l = Life{wanted: l.wanted, ticket: l.ticket, failed: l.failed, over: l.over}
	case RunWants:
		l.want(in.Command)
	case FrontendReplied:
		l.noteReply(in)
	case FrontendOver:
		l.over = true
	}
	var out []TicketedCommand
	if c := l.next(); c != 0 {
		l.ticket++
		if l.given == 0 {
			l.first = l.ticket
		}
		l.given, l.begun = c, l.begun || c == Begin
		out = append(out, TicketedCommand{l.ticket, c})
	}
	return out
}

// want notes where the run wants the source. A run does not go back to before its begin, and nothing follows its end.
func (l *Life) want(c Command) {
	if c == Resume {
		c = Begin
	}
	if c >= Prepare && c <= End && c != Prepare && l.wanted != End {
		l.wanted = c
	}
}

// noteReply notes a reply to a command of this connection.
func (l *Life) noteReply(in LifeInput) {
	if l.given == 0 || in.Ticket < l.first || in.Ticket > l.ticket || in.Ticket < l.answered {
		return
	}
	switch in.Reply {
	case ReplyFailed:
		l.failed = in.Why
		if l.failed == "" {
			l.failed = "it does not say why"
		}
	case ReplyReady, ReplyDone:
		if in.Reply == ReplyDone && (l.given != End || in.Ticket != l.ticket) {
			return
		}
		l.answered, l.failed = in.Ticket, ""
		l.over = l.over || in.Reply == ReplyDone
		l.prepared = l.prepared || in.Ticket == l.first && l.first > 0
	}
}

// next is the command that the front-end is to be told; 0: none.
func (l *Life) next() Command {
	switch {
	case !l.attached || !l.follows || l.given == End:
	case l.over && l.given == 0: // this run has nothing for another front-end
	case l.wanted == End:
		return End
	case l.given == 0:
		return Prepare
	case !l.prepared:
	case l.wanted == Begin && !l.begun:
		return Begin
	case l.wanted == Begin && l.given == Pause:
		return Resume
	case l.wanted == Pause && l.begun && l.given != Pause:
		return Pause
	}
	return 0
}

// Status returns how far the source is. stored: fragments of it wait to be taken.
func (l *Life) Status(stored bool) LifeStatus {
	s := LifeStatus{
		Wanted:   max(l.wanted, Prepare),
		Attached: l.attached,
		Follows:  l.follows,
		Untaken:  l.over && stored,
		Failed:   l.failed,
	}
	switch {
	case l.over:
		s.Arrived = !stored
	case !l.attached:
		s.Arrived = s.Wanted > Begin
	case !l.follows:
		s.Arrived = true
	case s.Wanted == Begin || s.Wanted == End:
		s.Arrived = l.next() == 0 && l.given > Prepare && l.answered == l.ticket
	default:
		s.Arrived = l.next() == 0 && l.answered == l.ticket
	}
	s.Arrived = s.Arrived && l.failed == ""
	return s
}

// IsOver says that the source has no more data in this run.
func (l *Life) IsOver() bool { return l.over }

// Follower is a Feed whose front-end may follow the run.
type Follower interface {
	// Want says where the run wants the source: Prepare, Begin, Pause or End. Any goroutine may call it; it does not wait.
	Want(c Command)
	// Life returns how far the source is. Any goroutine may call it.
	Life() LifeStatus
}
