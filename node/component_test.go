package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"ringlet/event/placing"
	"ringlet/node/config"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/shmem"
	"ringlet/transport"
)

// player is a component that writes down what it is asked.
type player struct {
	name  string
	fails bool
	state attachment
	calls *[]string
}

func (p *player) say(what string) { *p.calls = append(*p.calls, p.name+" "+what) }

func (p *player) start(context.Context, *runStart) error {
	p.say("starts")
	if p.fails {
		return errors.New(p.name)
	}
	return nil
}

func (p *player) stop(ctx context.Context, giveUp bool) error {
	p.say(fmt.Sprintf("stops, given up %v %v", giveUp, ctx.Err() != nil))
	return nil
}

func (p *player) free()                  { p.say("is freed") }
func (p *player) report(*figures)        {}
func (p *player) attachment() attachment { return p.state }
func (p *player) linkLost(rank int)      { p.say(fmt.Sprint("loses ", rank)) }

// newPlayed makes a session of components that write down what is asked of them.
func newPlayed(t *testing.T, state ...attachment) (s *session, calls *[]string) {
	t.Helper()
	s, calls = &session{base: base{assignment: &assignment{}, node: &process{}, table: shmem.NewTable(1)}}, &[]string{}
	s.endpoint = transport.New(transport.Config{
		Handler: s, Table: s.table, View: transport.View{Members: []transport.Member{{Name: "n0"}}},
	})
	t.Cleanup(func() { _ = s.endpoint.Close() })
	for i, a := range state {
		s.components = append(s.components, &player{name: string(rune('a' + i)), state: a, calls: calls})
	}
	return s, calls
}

// TestComponentsInTheirOrder: components stop in the reverse of the order in which they start, and are given back when
// all have stopped.
func TestComponentsInTheirOrder(t *testing.T) {
	s, calls := newPlayed(t, unattached, unattached)
	if err := s.stop(t.Context(), false); err != nil {
		t.Error(err)
	}
	s.abort()
	want := []string{"b stops, given up false false", "a stops, given up false false",
		"b stops, given up true true", "a stops, given up true true", "a is freed", "b is freed"}
	if !slices.Equal(*calls, want) {
		t.Errorf("their calls are %q, not %q", *calls, want)
	}
	if err := s.start(t.Context(), &nodev1.CommandRequest{}); !errors.Is(err, errLinksDown) {
		t.Errorf("a session that is taken down starts: %v", err)
	}
}

// TestAttachments: a node's part is over when no unit is attached, and it is excluded when each is that has attached.
func TestAttachments(t *testing.T) {
	for name, c := range map[string]struct {
		state              []attachment
		detached, excluded bool
	}{
		"no unit":                     {nil, true, false},
		"only decisions":              {[]attachment{unattached, unattached}, true, false},
		"at work":                     {[]attachment{unattached, attached, attached}, false, false},
		"excluded":                    {[]attachment{unattached, excluded}, true, true},
		"two excluded":                {[]attachment{excluded, excluded}, true, true},
		"one of two excluded":         {[]attachment{excluded, attached}, false, false},
		"drained":                     {[]attachment{detached, detached}, true, false},
		"one excluded, the rest over": {[]attachment{excluded, detached}, true, false},
	} {
		s, _ := newPlayed(t, c.state...)
		if s.allDetached() != c.detached || s.isExcluded() != c.excluded {
			t.Errorf("%s: detached %v, excluded %v", name, s.allDetached(), s.isExcluded())
		}
	}
}

// TestSignalsFindTheirUnit: of several units that take a kind of signal, the first that is meant has it. What no unit
// takes is an error, and so is what is no signal.
func TestSignalsFindTheirUnit(t *testing.T) {
	var h handlers
	var got []string
	unit := func(name string, err error) signalHandler {
		return func(peer int, payload []byte) error {
			got = append(got, fmt.Sprint(name, peer, len(payload)))
			return err
		}
	}
	refused := errors.New("refused")
	h.onSignal(placing.KindGrant, unit("absent", errNoSuchUnit))
	h.onSignal(placing.KindGrant, unit("second", refused))
	h.onSignal(placing.KindGrant, unit("third", nil))
	for i, c := range []struct {
		payload []byte
		want    error
	}{
		{nil, placing.ErrBadMessage},
		{[]byte{0}, placing.ErrBadMessage},
		{[]byte{99, 1}, placing.ErrBadMessage},
		{[]byte{byte(placing.KindTag), 1}, errNoSuchUnit},
		{[]byte{byte(placing.KindGrant), 1}, refused},
	} {
		if err := h.signal(7, c.payload); !errors.Is(err, c.want) {
			t.Errorf("%d: %v, not %v", i, err, c.want)
		}
	}
	if want := []string{"absent7 2", "second7 2"}; !slices.Equal(got, want) {
		t.Errorf("%q have it, not %q", got, want)
	}
}

// TestEveryKindHasItsUnit: a folded node with the decision unit takes each kind of signal, a builder unit alone none of
// a readout unit.
func TestEveryKindHasItsUnit(t *testing.T) {
	for name, c := range map[string]struct {
		self  *nodev1.Member
		takes string
	}{
		"folded":  {&nodev1.Member{Readout: true, Builder: true}, "1 2 3 4 5 6 7 8 "},
		"readout": {&nodev1.Member{Readout: true}, "1 3 5 6 8 "},
		"builder": {&nodev1.Member{Builder: true}, "2 4 7 8 "},
		"neither": {&nodev1.Member{}, "8 "},
	} {
		cfg := config.Completed{Config: config.Default()}
		s := &session{base: base{assignment: &assignment{
			cfg: cfg, self: c.self, buRanks: []int{0}, segmentPrefix: fmt.Sprintf("ringlet-kinds-test-%s", name),
		}, node: &process{}}}
		s.cfg.Slots, s.cfg.SlotSize = 1, 4096
		s.table = shmem.NewTable(1)
		if err := s.makeComponents(); err != nil {
			t.Fatal(err)
		}
		takes := ""
		for kind := placing.KindBarrier; kind <= placing.KindDecision; kind++ {
			if len(s.signals[kind]) > 0 {
				takes += fmt.Sprint(int(kind), " ")
			}
		}
		if takes != c.takes {
			t.Errorf("%s: it takes %s, not %s", name, takes, c.takes)
		}
		s.free()
	}
}
