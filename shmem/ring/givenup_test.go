package ring

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"

	"ringlet/testkit/must"
)

// setRevision1 makes the producer that is attached one of revision 1: it stores neither revision nor name.
func setRevision1(p *Producer) {
	p.revision.Store(0)
	p.identityOf.Store(0)
}

func readGivenUp(t *testing.T, p *Producer) (all []GivenUp) {
	t.Helper()
	for {
		g, ok, err := p.NextGivenUp()
		must.OK(t, err)
		if !ok {
			return all
		}
		all = append(all, g)
	}
}

// TestGivenUp: a producer is told of each range once, and of how many it missed.
func TestGivenUp(t *testing.T) {
	mem, p, c := pair(t)
	c.ReportGivenUp(5, 7, Late)
	c.ReportGivenUp(9, 9, Late) // none
	c.ReportGivenUp(100, 101, Jump)
	if all := readGivenUp(t, p); len(all) != 2 || all[0] != (GivenUp{From: 5, To: 7, Why: Late, Count: 2}) ||
		all[1] != (GivenUp{From: 100, To: 101, Why: Jump, Count: 1}) {
		t.Errorf("%+v", all)
	}
	if all := readGivenUp(t, p); len(all) != 0 || p.GivenUp() != 3 {
		t.Errorf("again: %+v, %d fragments", all, p.GivenUp())
	}
	for e := range uint64(givenUpTableSize + 10) {
		c.ReportGivenUp(200+e, 201+e, Leftover)
	}
	all := readGivenUp(t, p)
	if len(all) != givenUpTableSize || all[0].Overwritten != 10 || all[0].From != 210 || all[1].Overwritten != 0 {
		t.Errorf("%d ranges, the first %+v", len(all), all[0])
	}
	p, err := AttachProducer("again", mem, ProducerInfo{})
	must.OK(t, err)
	if all := readGivenUp(t, p); len(all) != givenUpTableSize || all[0].Overwritten != 12 {
		t.Errorf("the next one: %d ranges, the first %+v", len(all), all[0])
	}
}

func TestRangesThatCannotBe(t *testing.T) {
	_, p, c := pair(t)
	c.ReportGivenUp(5, 7, Late)
	c.givenUpTable[0].to.Store(5)
	var broken *BrokenError
	if _, _, err := p.NextGivenUp(); !errors.As(err, &broken) || broken.What != "range given up" {
		t.Error(err)
	}
	c.givenUpRanges.Store(0)
	if _, _, err := p.NextGivenUp(); !errors.As(err, &broken) || broken.What != "count of ranges" {
		t.Error(err)
	}
	c.givenUpRanges.Store(2) // and the second one is not there
	if _, ok, err := p.NextGivenUp(); ok || err != nil {
		t.Error(ok, err)
	}
}

// TestSafeForAnOldProducer: one that cannot be told what was given up is told nothing safe from there on.
func TestSafeForAnOldProducer(t *testing.T) {
	mem, p, c := pair(t)
	setRevision1(p)
	c.SetSafe(10)
	c.ReportGivenUp(3, 4, Repeat) // it was told that 3 is safe: nothing changes
	c.ReportGivenUp(1<<40, 1<<40+1, Jump)
	c.SetSafe(20)
	if p.Safe() != 20 {
		t.Errorf("safe below %d", p.Safe())
	}
	c.ReportGivenUp(25, 26, Late)
	c.ReportGivenUp(22, 23, Late)
	c.SetSafe(30)
	if held, is := c.SafeHeldAt(); p.Safe() != 22 || held != 22 || !is {
		t.Errorf("safe below %d, held at %d, %v", p.Safe(), held, is)
	}
	p.Detach(false)
	p, err := AttachProducer("new", mem, ProducerInfo{})
	must.OK(t, err)
	c.SetSafe(0)
	if _, is := c.SafeHeldAt(); p.Safe() != 30 || is {
		t.Errorf("a new one: safe below %d, held %v", p.Safe(), is)
	}
	// After a new one was killed, an old one is known for one.
	p, err = AttachProducer("old", mem, ProducerInfo{})
	must.OK(t, err)
	p.identityOf.Store(p.attached.Load() - 1)
	c.ReportGivenUp(31, 32, Late)
	c.SetSafe(40)
	if p.Safe() != 31 || c.producerRevised() {
		t.Errorf("an old one behind a new one: safe below %d", p.Safe())
	}
}

func TestEndIsTaken(t *testing.T) {
	mem, p, c := pair(t)
	put(t, p, 1, 1, []byte("abc"))
	p.Detach(true)
	if acked, err := p.EndAcked(); acked || err != nil {
		t.Error(acked, err)
	}
	c.Close(false)
	if _, err := p.EndAcked(); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	c.AckEnd()
	if acked, err := p.EndAcked(); !acked || err != nil {
		t.Error(acked, err)
	}
	// A consumer of revision 1 says no more than what it has taken.
	binary.LittleEndian.PutUint32(mem[0x2C:], 0)
	c.consumerState.Store(uint32(consumerReading))
	if acked, err := p.EndAcked(); acked || err != nil {
		t.Error(acked, err)
	}
	if _, ok, err := c.Next(); !ok || err != nil {
		t.Fatal(ok, err)
	}
	c.Done(1)
	if acked, err := p.EndAcked(); !acked || err != nil {
		t.Error(acked, err)
	}
}

// TestResumeBehindAWildNumber: the next producer begins where the consumer believes, and not behind a wild number.
func TestResumeBehindAWildNumber(t *testing.T) {
	mem, p, c := pair(t)
	again := func(want uint64, published bool) {
		t.Helper()
		var err error
		p, err = AttachProducer("again", mem, ProducerInfo{})
		must.OK(t, err)
		if p.ResumePublished() != published {
			t.Errorf("resume published %v", p.ResumePublished())
		}
		if p.Resume(); p.Expected() != want {
			t.Errorf("event %d comes next, want %d", p.Expected(), want)
		}
	}
	read := func() {
		t.Helper()
		if _, ok, err := c.Next(); !ok || err != nil {
			t.Fatal(ok, err)
		}
		c.Done(1)
	}
	again(0, true)
	must.OK(t, p.Drop(0))
	again(1, true) // the mark knows of what was dropped
	put(t, p, 1, 1, nil)
	again(2, false)
	read()
	c.PublishResume(2, true)
	again(2, true)
	put(t, p, 1<<40, 1, nil)
	again(1<<40+1, false)
	read()
	c.PublishResume(2, true)
	again(2, true)
	p, err := AttachProducer("dies", mem, ProducerInfo{})
	must.OK(t, err)
	if p.Expected() != 2 {
		t.Errorf("event %d comes next by the marks alone", p.Expected())
	}
	put(t, p, 2, 1, nil)
	read()
	c.PublishResume(3, true)
	again(3, true)
	c.PublishResume(0, false)
	again(3, true)
}

func TestNames(t *testing.T) {
	for name, want := range map[string]string{
		"calo":                          "calo",
		"":                              "",
		"a\nb\x1b[0m":                   "a?b?[0m",
		"\xff":                          "?",
		"größe":                         "größe",
		"a\x00behind it":                "a",
		strings.Repeat("0123456789", 7): strings.Repeat("0123456789", 6) + "0123",
	} {
		mem, _, c := pair(t)
		p, err := AttachProducer("named", mem, ProducerInfo{Name: name})
		must.OK(t, err)
		if got := c.Frontend(); got != want {
			t.Errorf("%q: %q", name, got)
		}
		p.identityOf.Store(math.MaxUint64) // of another
		if got := c.Frontend(); got != "" {
			t.Errorf("of an old one: %q", got)
		}
	}
}

// TestWordsBeforeTheData: words are read, and bounded.
func TestWordsBeforeTheData(t *testing.T) {
	mem, p, c := pair(t)
	put(t, p, 1, 1, []byte("triggerttimestmpabc"))
	put(t, p, 2, 1, make([]byte, 40))
	binary.LittleEndian.PutUint32(mem[HeaderSize+8:], 3)
	mem[HeaderSize+13] = flagTrigger | flagTime
	f, ok, err := c.Next()
	want := Words{
		HasTrigger: true, Trigger: binary.LittleEndian.Uint64([]byte("triggert")),
		HasStamp: true, Stamp: binary.LittleEndian.Uint64([]byte("timestmp")),
	}
	if !ok || err != nil || string(f.Data) != "abc" || cap(f.Data) != 3 || f.Words != want {
		t.Fatalf("%q, %+v, %v, %v", f.Data, f.Words, ok, err)
	}
	binary.LittleEndian.PutUint32(mem[HeaderSize+48+8:], 48)
	mem[HeaderSize+48+13] = flagTime
	var broken *BrokenError
	if _, _, err = c.Next(); !errors.As(err, &broken) || broken.What != "size" {
		t.Errorf("%v", err)
	}
}

// TestWordsThroughTheRing: records with and without words go round it several times, up to the largest.
func TestWordsThroughTheRing(t *testing.T) {
	_, p, c := pair(t)
	for e := range uint64(100) {
		size := int(e * 6553 % 65536)
		if e%10 == 9 {
			size = 65535
		}
		w := Words{HasTrigger: e&1 > 0, HasStamp: e&2 > 0}
		if w.HasTrigger {
			w.Trigger = 3 * e
		}
		if w.HasStamp {
			w.Stamp = 7 * e
		}
		place, ok, err := p.ReserveWith(size, w)
		if !ok || err != nil {
			t.Fatalf("event %d: %v, %v", e, ok, err)
		}
		for i := range place {
			place[i] = byte(e)
		}
		must.OK(t, p.Commit(e, 51, size))
		r, ok, err := c.Next()
		if !ok || err != nil || r.Number != e || r.Words != w || !bytes.Equal(r.Data, place) {
			t.Fatalf("event %d: %d of %d bytes, %+v, %v, %v", e, r.Number, len(r.Data), r.Words, ok, err)
		}
		c.Done(1)
	}
}
