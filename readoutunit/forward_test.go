package readoutunit

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ringlet/event/placing"
	"ringlet/tagnet"
	"ringlet/tagnet/core"
)

// forwarded is what comes after a readout unit in the tag ring.
type forwarded struct {
	mu   sync.Mutex
	tags []core.Tag
	err  error
}

func (o *forwarded) add(_ int, t *core.Tag) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.tags = append(o.tags, *t)
	return o.err
}

func (o *forwarded) len() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.tags)
}

// encodeTag is the signal by which a tag comes.
func encodeTag(t core.Tag) []byte { return placing.AppendTag(nil, t.AppendWords(nil)) }

// TestRunInARing takes the second of three units through three MEPs: it sends when the tags come, and passes each on
// with its bit.
func TestRunInARing(t *testing.T) {
	var on forwarded
	r := newRig(t, generator(t, 1), func(_ *rig, c *Config) {
		c.RU, c.RUs, c.Transfers, c.ForwardTag = 1, 3, openTagRing(1, 3, 2, true), on.add
	})
	r.until("the end of the input", func() bool { return r.sched.last().InputEnded })
	r.sched.send(0, 0, []core.Token{newToken(0, 0), newToken(1, 1), newToken(2, 0)})
	r.until("the tokens", func() bool { return r.unit.Stats().TokensReceived == 3 })
	if n := r.net.wrote(); n > 0 {
		t.Fatalf("%d MEPs were written without a tag", n)
	}
	for place, slot := range []uint32{2: 0, 0: 0, 1: 1} {
		tag := core.Tag{
			TokenPlace: uint64(place),
			MEP:        uint64(place),
			Slot:       slot,
			Attempt:    1,
		}
		tag.Served.Add(0)
		if err := r.unit.HandleTag(0, encodeTag(tag)); err != nil {
			t.Fatal(err)
		}
	}
	r.until("the tags to go on", func() bool { return on.len() == 3 })
	for place, tag := range on.tags {
		if tag.TokenPlace != uint64(place) || !tag.Served.Contains(0) || !tag.Served.Contains(1) || tag.Served.Len() != 2 {
			t.Errorf("tag %d: %+v", place, tag)
		}
	}
	r.sched.send(1, 3)
	close(r.sched.tokens)
	r.until("the release", func() bool { return r.unit.Stats().RetainedBlocks == 2 })
	if err := r.unit.Drain(t.Context()); err != nil {
		t.Error(err)
	}
	if s := r.unit.Stats(); s.PartsWritten != 3 || s.OpenTransfers != 0 || s.BypassedTags != 0 {
		t.Errorf("%+v", s)
	}
}

// TestLaunchedTags holds that the first unit takes its tags from the scheduler, and lets go of what is withdrawn.
func TestLaunchedTags(t *testing.T) {
	var on forwarded
	r := newRig(t, generator(t, 1), func(_ *rig, c *Config) {
		c.Transfers, c.ForwardTag = openTagRing(0, 3, 2, false), on.add
	})
	r.until("the end of the input", func() bool { return r.sched.last().InputEnded })
	r.sched.tokens <- tagnet.Tokens{
		Batch:       *batch(0, []core.Token{newToken(0, 0), newToken(1, 1), none}),
		State:       core.Running,
		Tags:        []core.Tag{{TokenPlace: 0, MEP: 0, Attempt: 1}, {TokenPlace: 1, MEP: 1, Slot: 1, Attempt: 1}},
		Withdrawals: []core.Withdrawal{{BU: 0, BeforeCycle: 1}},
	}
	r.until("the tags to go on", func() bool { return on.len() == 2 })
	if on.tags[0].Served.Len() != 0 || on.tags[1].Served.Len() != 1 {
		t.Errorf("%+v", on.tags)
	}
	if s := r.unit.Stats(); s.PartsWritten != 1 || s.OpenTransfers != 0 || r.net.signals != 1 {
		t.Errorf("%+v, %d signals", s, r.net.signals)
	}
	if want := [][2]int{{r.unit.cfg.BURanks[0], 1}}; !slices.Equal(r.net.quiesced, want) ||
		!slices.Equal(r.sched.quiesced, []uint64{0}) {
		t.Errorf("the builder unit was told %v, not %v, and the scheduler %v", r.net.quiesced, want, r.sched.quiesced)
	}
}

// TestTagsRefused holds that what is no tag, or comes from elsewhere, is counted and has no effect.
func TestTagsRefused(t *testing.T) {
	good := core.Tag{TokenPlace: 0, MEP: 0, Attempt: 1}
	for name, tc := range map[string]struct {
		from    int
		payload []byte
		says    string
	}{
		"nothing":            {0, nil, "0 bytes"},
		"two words":          {0, placing.AppendTag(nil, []uint64{1, 2}), "2 words that are no tag"},
		"two tags":           {0, placing.AppendTag(nil, good.AppendWords(good.AppendWords(nil))), "6 words that are no tag"},
		"from the one after": {2, encodeTag(good), "tags come only from the readout unit before this one"},
	} {
		r := newRig(t, generator(t, 1), func(_ *rig, c *Config) {
			c.RU, c.RUs, c.Transfers, c.ForwardTag = 1, 3, openTagRing(1, 3, 2, true), (&forwarded{}).add
		})
		if err := r.unit.HandleTag(tc.from, tc.payload); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v", name, err)
		}
		if n := r.unit.Stats().RefusedGrants; n != 1 {
			t.Errorf("%s: counted %d times", name, n)
		}
		r.close()
	}
	r := newRig(t, generator(t, 1), func(_ *rig, c *Config) { c.RU, c.RUs = 1, 3 })
	if err := r.unit.HandleTag(0, encodeTag(good)); !errors.Is(err, errNoTagRing) {
		t.Errorf("without a ring: %v", err)
	}
}

// TestTagNotPassedOn holds that a unit whose next one is gone fails, and says at which tag.
func TestTagNotPassedOn(t *testing.T) {
	gone := errors.New("it is gone")
	r := newRig(t, generator(t, 1), func(_ *rig, c *Config) {
		c.Transfers, c.ForwardTag = openTagRing(0, 3, 2, true), (&forwarded{err: gone}).add
	})
	tag := core.Tag{TokenPlace: 0, MEP: 0, Attempt: 1}
	tag.Served.Add(0)
	r.sched.tokens <- tagnet.Tokens{State: core.Running, Tags: []core.Tag{tag}}
	if err := r.failure(); !errors.Is(err, gone) || !strings.Contains(fmt.Sprint(err), "passing on the tag of MEP 0") {
		t.Error(err)
	}
}

// stopped is the only unit of a tag ring with three builder units, at ranks 5, 6 and 7, whose goroutines the test
// plays.
func stopped(t *testing.T, forward func(int, *core.Tag) error) *Unit {
	u := New(Config{
		CoreConfig: CoreConfig{
			RU:        1,
			RUs:       2,
			Retention: newRetention(t, 1, 64, 1),
			Streams:   1,
			Transfers: openTagRing(0, 3, 2, true),
		},
		BURanks:    []int{5, 6, 7},
		Network:    newFakeNetwork(),
		ForwardTag: forward,
	})
	t.Cleanup(func() { u.cancel(errClosed) })
	return u
}

// TestTagsNobodyWants holds that tags still under way when the scheduler has finished are no failure of the unit that
// ends the tag ring.
func TestTagsNobodyWants(t *testing.T) {
	on := forwarded{err: io.EOF}
	u := stopped(t, on.add)
	tag := core.Tag{TokenPlace: 0, MEP: 0, Attempt: 1}
	tag.Served.Add(0)
	if err := u.notify(&Input{Kind: TagCame, Tag: tag}); err != nil || on.len() != 1 || u.failed {
		t.Errorf("%v, %d tags, the unit has failed: %v", err, on.len(), u.failed)
	}
}

// TestTagThatContradictsEndsTheUnit: were it only dropped, its group would stay busy, and the tag ring stand still
// without a word.
func TestTagThatContradictsEndsTheUnit(t *testing.T) {
	r := newRig(t, generator(t, 1), func(_ *rig, c *Config) {
		c.RU, c.RUs, c.Transfers, c.ForwardTag = 1, 3, openTagRing(1, 3, 2, true), (&forwarded{}).add
	})
	r.until("the end of the input", func() bool { return r.sched.last().InputEnded })
	r.sched.send(0, 0, []core.Token{newToken(0, 0), none, none})
	r.until("the token", func() bool { return r.unit.Stats().TokensReceived == 1 })
	var wrong *tagError
	if err := r.unit.HandleTag(0, encodeTag(core.Tag{TokenPlace: 0, MEP: 1, Attempt: 1})); !errors.As(err, &wrong) {
		t.Error(err)
	}
	if err := r.failure(); !errors.As(err, &wrong) || wrong.Tag.MEP != 1 {
		t.Error(err)
	}
	if n := r.unit.Stats().RefusedGrants; n != 1 {
		t.Errorf("counted %d times", n)
	}
}

// TestWithdrawnBeforeItIsSent: a builder unit is excluded when the conductor has seen that it is its turn, and has not
// yet obeyed. Nothing is written to it, whether its place is still kept or was forgotten with the next cycle, and the
// account stays right.
func TestWithdrawnBeforeItIsSent(t *testing.T) {
	for name, next := range map[string][][]core.Token{
		"its place is kept":      nil,
		"its place is forgotten": {{none, none, none}},
	} {
		t.Run(name, func(t *testing.T) {
			var on forwarded
			u := stopped(t, on.add)
			u.cfg.Scheduler = newFakeScheduler()
			transfers := u.core.transfers
			err := errors.Join(
				transfers.AddCycle(batch(0, []core.Token{newToken(0, 0), none, none}), 0),
				u.notify(&Input{Kind: GrantCame, Grant: placing.Grant{MEP: 0, Attempt: 1, Length: 4}}),
				u.notify(&Input{Kind: TagCame, Tag: core.Tag{TokenPlace: 0, MEP: 0, Attempt: 1}}),
			)
			if turn, _ := transfers.Next(); err != nil || turn != Send {
				t.Fatal(err, turn)
			}
			withdrawals := []core.Withdrawal{{BU: 0, BeforeCycle: 1}}
			if err := u.notify(&Input{Kind: TokensCame, Tokens: &tagnet.Tokens{Withdrawals: withdrawals}}); err != nil {
				t.Fatal(err)
			}
			for _, c := range next {
				if err := transfers.AddCycle(batch(1, c), 0); err != nil {
					t.Fatal(err)
				}
			}
			if err := u.notify(&Input{Kind: ConductorFree, Now: time.Now()}); err != nil || len(u.actions) != 1 ||
				u.actions[0].Kind != Wait {
				t.Error(err, u.actions)
			}
			if transfers.OpenTransfers() != 0 || on.len() != 1 || on.tags[0].Served.Len() != 0 {
				t.Errorf("%d open; %+v", transfers.OpenTransfers(), on.tags)
			}
		})
	}
}

// TestTagRingAllocatesNothing holds the way of a tag through a unit, once its memory has grown.
func TestTagRingAllocatesNothing(t *testing.T) {
	r := openTagRing(0, 1, 1, true)
	tags := r.TagOrder()
	var b core.Batch
	var places []uint64
	mep, tag := uint64(0), core.Tag{}
	round := func() {
		b.Reset(mep, 1)
		b.MEPs, b.Slots = append(b.MEPs, mep), append(b.Slots, 1<<24)
		tag = core.Tag{TokenPlace: mep, MEP: mep, Attempt: 1}
		if err := errors.Join(r.AddCycle(&b, 0), tags.AddTag(&tag), r.ApplyGrant(0,
			&placing.Grant{MEP: mep, Attempt: 1, Length: 4})); err != nil {
			t.Fatal(err)
		}
		_, n := r.Next()
		places = r.Serve(n, 1, places[:0])
		if err := r.Complete(places); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			tags.NextForward()
		}
		mep++
	}
	for range 100 {
		round()
	}
	if n := testing.AllocsPerRun(1000, round); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
