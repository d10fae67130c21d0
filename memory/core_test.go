package memory

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"ringlet/shmem"
	"ringlet/testkit/must"
	"ringlet/testkit/transcript"
)

// TestTranscripts plays testdata/owner*.txt with the owner's core, user*.txt with the user's, and buffers*.txt with the
// write buffers.
func TestTranscripts(t *testing.T) {
	transcript.Play(t, func(t *testing.T) transcript.Answer {
		switch name := t.Name(); {
		case strings.Contains(name, "/owner"):
			return newOwnerScript(t).answer
		case strings.Contains(name, "/user"):
			return newUserScript(t).answer
		}
		return (&bufferScript{t: t}).answer
	})
}

func number(t *testing.T, words []string, i int) uint64 {
	t.Helper()
	if i >= len(words) {
		return 0
	}
	n, err := strconv.ParseUint(words[i], 0, 64)
	must.OK(t, err)
	return n
}

// ownerScript is an owner of three members with segments of two pages.
type ownerScript struct {
	t       *testing.T
	table   *shmem.Table
	owner   *responder
	stats   Stats
	exports map[string]*exported
}

func newOwnerScript(t *testing.T) *ownerScript {
	s := &ownerScript{t: t, table: shmem.NewTable(16, shmem.FirstGeneration(1)), exports: map[string]*exported{}}
	s.owner = newResponder(s.table, 3, 0x10, &s.stats)
	return s
}

// answer takes: export NAME RIGHTS; withdraw NAME; gone PEER; read PEER ID STATUS; PEER KIND ID ARGS.
func (s *ownerScript) answer(command string) string {
	w := strings.Fields(command)
	var refs []shmem.Ref
	switch w[0] {
	case "export":
		return s.export(w[1], w[2])
	case "withdraw":
		refs = s.owner.withdraw(s.exports[w[1]])
	case "gone":
		refs = s.owner.peerGone(transcript.Number(s.t, w[1]))
	case "read":
		s.owner.finishRead(transcript.Number(s.t, w[1]), number(s.t, w, 2), Cause(number(s.t, w, 3)))
	default:
		refs = s.request(w)
	}
	return s.describe(refs)
}

func (s *ownerScript) export(name, rights string) string {
	var allow Allow
	for i, c := range "rwln" {
		if strings.ContainsRune(rights, c) {
			allow |= 1 << i
		}
	}
	rule := shmem.PageRule{PageCount: 2, Peer: shmem.AnyPeer, Access: accessFor(allow, 0)}
	id, err := s.table.Export(make([]byte, 2*PageSize), rule)
	must.OK(s.t, err)
	must.OK(s.t, s.table.AllowOverlap(id))
	e, err := s.owner.export(name, id, 2*PageSize, []Pages{{Count: 2, Peer: Everybody, Allow: allow}})
	if err != nil {
		return err.Error() + "\n"
	}
	s.exports[name] = e
	return fmt.Sprintf("epoch %#x\n", e.epoch)
}

var scriptKinds = map[string]kind{
	"find": kindFind, "leave": kindLeave, "load": kindLoad, "long": kindRead, "add": kindAdd, "swap": kindSwap,
	"compare": kindCompare, "notify": kindNotify, "wait": kindWait, "cancel": kindCancel,
}

// request is PEER KIND ID, then NAME, or WINDOW:GENERATION OFFSET A B.
func (s *ownerScript) request(w []string) []shmem.Ref {
	m := message{kind: scriptKinds[w[1]], id: number(s.t, w, 2)}
	switch m.kind {
	case kindFind:
		m.body = []byte(w[3])
	case kindLeave, kindCancel:
		m.a = number(s.t, w, 3)
	default:
		_, err := fmt.Sscanf(w[3], "%d:%d", &m.ref.Window, &m.ref.Gen)
		must.OK(s.t, err)
		m.off, m.a, m.b, m.length = number(s.t, w, 4), number(s.t, w, 5), number(s.t, w, 6), 8
	}
	return s.owner.request(transcript.Number(s.t, w[0]), &m)
}

func (s *ownerScript) describe(refs []shmem.Ref) string {
	var b strings.Builder
	for _, o := range s.owner.outgoing {
		fmt.Fprintf(&b, "to p%d: %v %d", o.peer, o.kind, o.id)
		if o.status != causeNone {
			fmt.Fprintf(&b, ", refused: %v", o.status)
		}
		if o.a != 0 || o.b != 0 {
			fmt.Fprintf(&b, ", a %d, b %#x", o.a, o.b)
		}
		if len(o.body) > 0 && len(o.body)%runBytes == 0 {
			runs, err := parseRuns(o.body, 2)
			must.OK(s.t, err)
			for _, r := range runs {
				fmt.Fprintf(&b, ", pages %d +%d %v %v window %d:%d", r.first, r.count, r.allow, r.attributes, r.ref.Window,
					r.ref.Gen)
			}
		} else if len(o.body) > 0 {
			fmt.Fprintf(&b, ", bytes %x", o.body)
		}
		b.WriteString("\n")
	}
	for _, r := range s.owner.outgoingReads {
		fmt.Fprintf(&b, "the shell reads for p%d: %d\n", r.peer, r.id)
	}
	for _, r := range refs {
		fmt.Fprintf(&b, "the shell revokes window %d:%d\n", r.Window, r.Gen)
		must.OK(s.t, s.table.Revoke(r))
	}
	s.owner.outgoing, s.owner.outgoingReads = s.owner.outgoing[:0], s.owner.outgoingReads[:0]
	return b.String()
}

// userScript is the transactions of a node with two peers. Slots are called by the names they are begun with.
type userScript struct {
	t     *testing.T
	user  *requester
	stats Stats
	names map[int]string
}

func newUserScript(t *testing.T) *userScript {
	s := &userScript{t: t, names: map[int]string{}}
	s.user = newRequester(2, &s.stats)
	return s
}

func (s *userScript) slot(name string) int {
	for slot, n := range s.names {
		if n == name {
			return slot
		}
	}
	s.t.Fatalf("there is no transaction %q", name)
	return 0
}

// answer takes: begin NAME cCONTEXT pPEER|fence [ordered] [posted] [until MS]; sent NAME; done NAME; refused NAME;
// cancel NAME; at MS; down pPEER.
func (s *userScript) answer(command string) string {
	w := strings.Fields(command)
	switch w[0] {
	case "begin":
		q := request{context: transcript.Number(s.t, w[2]), peer: 2, ordered: w[3] == "fence"}
		if w[3] != "fence" {
			q.peer = transcript.Number(s.t, w[3])
		}
		for i, word := range w[4:] {
			switch word {
			case "ordered":
				q.ordered = true
			case "posted":
				q.posted = true
			case "until":
				q.deadline = int64(number(s.t, w, i+5))
			}
		}
		s.names[s.user.free[len(s.user.free)-1]] = w[1]
		s.user.begin(q)
	case "sent":
		s.user.transactions[s.slot(w[1])].maybeSent = true
	case "done":
		s.user.finish(s.slot(w[1]), Done, causeNone)
	case "refused":
		s.user.finish(s.slot(w[1]), Refused, ErrDenied)
	case "cancel":
		s.user.abandon(s.slot(w[1]), causeCancelled)
	case "at":
		s.user.expire(int64(number(s.t, w, 1)))
	case "down":
		s.user.peerDown(transcript.Number(s.t, w[1]), ErrLinkDown)
	default:
		s.t.Fatalf("what is %q", command)
	}
	return s.describe()
}

func (s *userScript) describe() string {
	var b strings.Builder
	for _, a := range s.user.actions {
		name := s.names[a.slot]
		switch {
		case a.verb == actStart:
			fmt.Fprintf(&b, "%s starts\n", name)
			continue
		case a.why != causeNone:
			fmt.Fprintf(&b, "%s is %v: %v\n", name, a.outcome, a.why)
		case s.user.transactions[a.slot].state == txLost || a.outcome != Done:
			fmt.Fprintf(&b, "%s is %v\n", name, a.outcome)
		default:
			fmt.Fprintf(&b, "%s is over\n", name)
		}
		if a.slotFreed {
			delete(s.names, a.slot)
		} else {
			fmt.Fprintf(&b, "%s keeps its slot\n", name)
		}
	}
	s.user.actions = s.user.actions[:0]
	return b.String()
}

// bufferScript is the write buffers of two imports, a and b.
type bufferScript struct {
	t *testing.T
	c combiner
}

// answer takes: write IMPORT cCONTEXT OFFSET N NOW; due NOW; flush cCONTEXT.
func (s *bufferScript) answer(command string) string {
	w := strings.Fields(command)
	var b strings.Builder
	leave := func(i int, why string) {
		x := s.c.close(i)
		fmt.Fprintf(&b, "%v c%d [%d, +%d) leaves: %s\n", x.imported, x.context, x.off, x.n, why)
	}
	switch w[0] {
	case "write":
		k := bufferKey{imported: w[1], context: transcript.Number(s.t, w[2])}
		off, n := int64(number(s.t, w, 3)), int(number(s.t, w, 4))
		i, at, full, ok := s.c.join(k, off, n)
		if ok {
			fmt.Fprintf(&b, "it joins at %d\n", at)
		} else {
			for i, must := s.c.victim(k); must; i, must = s.c.victim(k) {
				leave(i, "it gives way")
			}
			i, full = s.c.begin(k, off, n, int64(number(s.t, w, 5)))
			b.WriteString("it opens a buffer\n")
		}
		if full {
			leave(i, "its page ends")
		}
	case "due":
		for i, ok := s.c.dueBuffer(int64(number(s.t, w, 1))); ok; i, ok = s.c.dueBuffer(int64(number(s.t, w, 1))) {
			leave(i, "its time is over")
		}
	case "flush":
		for i, ok := s.c.findOpen(transcript.Number(s.t, w[1])); ok; i, ok = s.c.findOpen(transcript.Number(s.t, w[1])) {
			leave(i, "a fence")
		}
	}
	fmt.Fprintf(&b, "the next leaves at %d\n", s.c.deadline())
	return b.String()
}
