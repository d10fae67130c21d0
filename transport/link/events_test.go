package link

import "testing"

// TestEventsWithoutDatagrams: a fence with nothing before it, and a dmove that dies before it is sent, leave something
// to tell without any datagram.
func TestEventsWithoutDatagrams(t *testing.T) {
	d := newDuo(t, Config{})
	c := d.core[0]
	if c.HasEvents() {
		t.Fatal("a new link has something to tell")
	}
	c.Fence(1)
	if !c.HasEvents() || len(c.Events(nil)) != 1 || c.HasEvents() {
		t.Error("a fence on an idle link is not told, or for ever")
	}
	c.Write(Write{
		Ref:      d.ref[0],
		Data:     []byte("x"),
		Dmove:    true,
		Deadline: d.now - 1,
		Cookie:   2,
	})
	if !c.NextDue() || c.Next(d.now, make([]byte, 1415)) != 0 || c.NextDue() || !c.HasEvents() {
		t.Error("a dmove that has died is not told")
	}
	if s := c.SilentFor(d.now + second); s != 0 {
		t.Errorf("a link with nothing outstanding has been silent for %d ns", s)
	}
	d.write(0, 0, []byte("y"), 3)
	c.Next(d.now, make([]byte, 1415))
	for range 20 {
		d.now = c.Deadline()
		c.Tick(d.now)
		c.Next(d.now, make([]byte, 1415))
	}
	if s := c.SilentFor(d.now); s < second {
		t.Errorf("after 20 time-outs it has been silent for %d ms", s/millisecond)
	}
}
