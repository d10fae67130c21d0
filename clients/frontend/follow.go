package frontend

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"strings"
)

// A front-end that follows the run (docs/format/frames.md, "The life of a run").
const (
	followOption   = 4
	followRequired = 0x80 // of an option's second byte: a Ringlet that does not know it refuses

	codeCommand = 9
	codeSource  = 11
	codeConfig  = 12
	codeBusy    = 13
	maxConfig   = 64 << 10 // bytes

	flagMessage  = 32
	maxReply     = 512 // bytes of a reason
	maxCommands  = 64  // that wait for NextCommand: a run has fewer, unless nobody asks
	messageReady = 1
	messageFail  = 2
	messageDone  = 3
	messageBusy  = 4
	messageFree  = 5
)

// CommandKind is what a front-end is told.
type CommandKind uint8

// Kinds of commands.
const (
	Prepare CommandKind = iota + 1 // make ready for the run; answer when ready
	Begin                          // the run has begun: send
	Pause                          // send no more, until Resume
	Resume                         // go on
	End                            // the run ends: send what was taken, and answer or Close
)

func (k CommandKind) String() string {
	if k >= Prepare && k <= End {
		return [...]string{"prepare", "begin", "pause", "resume", "end"}[k-1]
	}
	return "a later version's command"
}

// Command is what the run tells its front-ends. The front-end answers each one, by Answer.
type Command struct {
	Kind       CommandKind
	Run        uint64 // its number
	Source     uint16 // id of the source
	SourceName string // how the run calls the source; "": it has no name
	Config     []byte // the front-end's part of the configuration, as the input names it by ?config=; nil: none
	ConfigHash string // its SHA-256 in hexadecimal digits

	ticket, connection uint64
}

// following is what a stream knows of the run that its front-end follows. The mutex of the stream guards it.
type following struct {
	connection  uint64 // counts them: a reply belongs to the connection of its command
	source      answer // with id and name
	config      []byte
	commands    []Command
	endReported bool // this connection has told the end of the run
	replies     []reply

	unitListens bool   // the readout unit says whether it is busy, and wants to hear whether the front-end is
	busy        uint64 // why the readout unit is busy; 0: it is free
	says        bool   // the front-end is busy
	said        bool   // so says the last message in this connection
	sayDue      bool   // another message is to be sent
	sayBehind   uint64 // its place, as of a reply
}

// reply is an answer of the front-end that is not sent yet.
type reply struct {
	behind uint64 // position in the send buffer: it is sent behind all that was queued before it
	frame  []byte
}

// reset begins a connection: commands and replies of the one before are over.
func (f *following) reset() { *f = following{connection: f.connection + 1, says: f.says} }

// takeAnswer keeps a command for NextCommand.
func (f *following) takeAnswer(a answer) {
	switch a.code {
	case codeSource:
		f.source, f.config = a, nil
		return
	case codeConfig:
		if len(f.config)+len(a.text) <= maxConfig {
			f.config = append(f.config, a.text...)
		}
		return
	}
	f.endReported = f.endReported || a.c == uint32(End)
	name, hash, _ := strings.Cut(f.source.text, "\n")
	if len(f.commands) == maxCommands {
		f.commands = f.commands[1:]
	}
	f.commands = append(f.commands, Command{
		Kind:       CommandKind(min(a.c, 255)),
		Run:        a.b,
		Source:     uint16(f.source.a),
		SourceName: name,
		Config:     f.config,
		ConfigHash: hash,
		ticket:     a.a,
		connection: f.connection,
	})
}

// NextCommand waits for the next command of the run, in a stream whose settings have Follow. After a break of the
// connection the first one is Prepare again, with the number of the run. The error is ctx's, or the stream's.
func (s *Stream) NextCommand(ctx context.Context) (Command, error) {
	for {
		s.mu.Lock()
		f, err := &s.following, s.err
		if len(f.commands) > 0 {
			c := f.commands[0]
			f.commands = f.commands[1:]
			s.mu.Unlock()
			return c, nil
		}
		s.mu.Unlock()
		if err != nil {
			return Command{}, err
		}
		select {
		case <-s.commanded:
		case <-s.stopped:
			return Command{}, errStopped
		case <-ctx.Done():
			return Command{}, ctx.Err()
		}
	}
}

var errStopped = errors.New("the stream is closed")

// Answer answers a command: nil says that the front-end is where the command leads, an error that it cannot go there,
// and why. It does not wait. An answer to a command of an earlier connection has no effect. If 64 answers wait behind
// fragments, the newest of them gives way: a later command's answer is the one that counts. Any goroutine may call it.
func (s *Stream) Answer(c Command, failed error) {
	kind, why := byte(messageReady), ""
	switch {
	case failed != nil:
		kind, why = messageFail, failed.Error()
		why = why[:min(len(why), maxReply)]
	case c.Kind == End:
		kind = messageDone
	}
	frame := messageFrame(c.ticket, kind, why)
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := &s.following; c.connection == f.connection {
		f.replies = append(f.replies[:min(len(f.replies), maxCommands-1)], reply{max(s.buffer.head, s.buffer.sent), frame})
		signal(s.toSend)
	}
}

// messageFrame is a message of the front-end as a frame.
func messageFrame(ticket uint64, kind byte, why string) []byte {
	frame := binary.LittleEndian.AppendUint64(nil, ticket)
	frame = binary.LittleEndian.AppendUint32(frame, uint32(len(why)))
	frame = append(frame, flagMessage, kind, 0x46, 0x52)
	sum := crc32.Update(crc32.Checksum(frame, castagnoli), castagnoli, []byte(why))
	return append(binary.LittleEndian.AppendUint32(frame, sum), why...)
}

// nextPiece is the next bytes to send. While a reply waits they end where it is to follow. mu is held.
func (s *Stream) nextPiece() []byte {
	piece := s.buffer.unsent()
	if replies := s.following.replies; len(replies) > 0 {
		piece = piece[:min(uint64(len(piece)), replies[0].behind-s.buffer.sent)]
	}
	if s.following.sayDue {
		piece = piece[:min(uint64(len(piece)), s.following.sayBehind-s.buffer.sent)]
	}
	return piece
}

// sendReplies sends the replies whose turn it is.
func (s *Stream) sendReplies(c conn) error {
	s.mu.Lock()
	var out []byte
	f := &s.following
	for len(f.replies) > 0 && f.replies[0].behind <= s.buffer.sent {
		out = append(out, f.replies[0].frame...)
		f.replies = f.replies[1:]
	}
	if f.sayDue && f.sayBehind <= s.buffer.sent {
		f.sayDue = false
		if f.says != f.said {
			f.said = f.says
			out = append(out, busyMessage(f.says)...)
		}
	}
	s.mu.Unlock()
	if len(out) == 0 {
		return nil
	}
	_, err := c.Write(out)
	return err
}
