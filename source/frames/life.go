package frames

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"strings"
	"unicode"

	"ringlet/source/live"
)

// Want implements live.Follower.
func (f *feed) Want(c live.Command) {
	f.stepLife(live.LifeInput{Event: live.RunWants, Command: c})
}

// Life implements live.Follower.
func (f *feed) Life() live.LifeStatus {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.life.Status(f.store.hasFragments())
	if f.err != nil {
		s.Failed, s.Arrived = f.err.Error(), false
	}
	return s
}

// stepLife gives an input to the life of the source, and what follows from it to the attached front-end.
func (f *feed) stepLife(in live.LifeInput) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stepLifeLocked(in)
}

// stepLifeLocked is stepLife for a caller that holds mu.
func (f *feed) stepLifeLocked(in live.LifeInput) {
	before := f.life.Status(false)
	commands := f.life.Step(in)
	now := f.life.Status(false)
	if f.control.notify(commands) {
		commands = nil
	}
	for _, c := range commands {
		f.session.newCommands = append(f.session.newCommands, answer{
			Code: codeCommand,
			A:    c.Ticket,
			B:    f.set.Run,
			C:    uint32(c.Command),
			D:    uint32(now.Wanted),
		})
		wake(f.session.ackDue)
	}
	if now.Failed != before.Failed && now.Failed != "" {
		f.logEvent(slog.LevelWarn, "a front-end says that it has failed", "frontend", f.lastFrontend, "why", now.Failed)
	}
}

// describeSource is what a front-end that follows the run is told first: the source, and its part of the configuration
// in pieces.
func (f *feed) describeSource() []answer {
	config := f.set.Config
	sentence := cmp.Or(f.set.SourceName, f.sourceName)
	if config != "" {
		sum := sha256.Sum256([]byte(config))
		sentence += "\n" + hex.EncodeToString(sum[:])
	}
	out := []answer{{
		Code:     codeSource,
		A:        uint64(f.set.SourceID),
		B:        f.set.Run,
		C:        uint32(len(config)),
		Sentence: sentence,
	}}
	for at := 0; at < len(config); at += maxSentence {
		out = append(out, answer{
			Code:     codeConfig,
			A:        uint64(at),
			Sentence: config[at:min(at+maxSentence, len(config))],
		})
	}
	return out
}

// SetBusy implements live.BusyListener.
func (f *feed) SetBusy(s live.BusyState) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.busy = s.Causes
	if f.session != nil {
		wake(f.session.ackDue)
	}
}

// setBusy notes whether the front-end is busy.
func (s *session) setBusy(busy bool) {
	if s.busy != busy && s.feed.set.OnBusy != nil {
		s.feed.set.OnBusy(busy)
	}
	s.busy = busy
}

// takeMessage handles a message of the front-end, once the consumer sees the fragments that came before it.
func (s *session) takeMessage(fr *frame) error {
	s.feed.store.publish()
	if fr.Type == messageBusy || fr.Type == messageFree {
		s.setBusy(fr.Type == messageBusy && !s.feed.state.ended)
		return nil
	}
	reply, err := live.ParseReply(fr.Type)
	if err != nil {
		return formatErrorf("message %d is unknown", fr.Type)
	}
	s.feed.stepLife(live.LifeInput{
		Event:  live.FrontendReplied,
		Ticket: fr.Event,
		Reply:  reply,
		Why:    printable(fr.Data),
	})
	return nil
}

// printable replaces what is not printable in a text from outside.
func printable(text []byte) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, string(text))
}
