package link

import (
	"reflect"
	"testing"
)

// TestStatsAreWords: Add takes the counters for an array of one type.
func TestStatsAreWords(t *testing.T) {
	var a, b Stats
	sum, more := reflect.ValueOf(&a).Elem(), reflect.ValueOf(&b).Elem()
	for i := range sum.NumField() {
		if sum.Field(i).Kind() != reflect.Uint64 {
			t.Fatalf("%s is no uint64", sum.Type().Field(i).Name)
		}
		sum.Field(i).SetUint(uint64(i))
		more.Field(i).SetUint(1000)
	}
	if n := testing.AllocsPerRun(10, func() { a.Add(&b) }); n > 0 {
		t.Errorf("a sum allocates %v times", n)
	}
	for i := range sum.NumField() { // AllocsPerRun adds once more, to warm up
		if got := sum.Field(i).Uint(); got != uint64(i+11000) {
			t.Errorf("%s is %d", sum.Type().Field(i).Name, got)
		}
	}
}

// TestAStallIsCountedOnce: a wait counts when it begins, however often its end is looked for, and by its cause.
func TestAStallIsCountedOnce(t *testing.T) {
	d := newDuo(t, Config{Credit: 32})
	c, buf := d.core[0], make([]byte, 1415)
	look := func() {
		for range 100 {
			for c.Next(d.now, buf) != 0 { // which nobody receives
			}
		}
	}
	look()
	if s := c.Stats(); s.StallsCredit+s.StallsTransactions+s.StallsCongestion+s.StallsQueue != 0 {
		t.Fatalf("a link with nothing to send stalls: %+v", s)
	}
	data := make([]byte, 100_000)
	for range maxOps {
		if !c.Write(Write{Ref: d.ref[0], Data: data}) {
			t.Fatal("the queue is full too early")
		}
	}
	look()
	if s := c.Stats(); s.StallsCredit != 1 || s.StallsTransactions+s.StallsCongestion+s.StallsQueue != 0 {
		t.Errorf("32 datagrams are on their way, and no more may go: %+v", s)
	}
	for range 10 {
		if c.Write(Write{Ref: d.ref[0], Data: data}) {
			t.Fatal("the queue has no bound")
		}
	}
	if s := c.Stats(); s.StallsQueue != 1 {
		t.Errorf("one writer waits for room: %+v", s)
	}
}

// TestAPathThatLosesStalls: what the path cannot carry is no want of credit.
func TestAPathThatLosesStalls(t *testing.T) {
	d := newDuo(t, Config{Credit: 64, CongestionControl: true})
	for i := range 40 {
		d.write(0, 0, make([]byte, duoGrant), uint64(i))
	}
	n := 0
	d.drop = func(from int, b []byte) bool {
		n++
		return from == 0 && b[1] == spaceRequests && n%3 == 0
	}
	if !d.run(20 * second) {
		t.Fatal("stuck")
	}
	if s := d.core[0].Stats(); s.StallsCongestion == 0 {
		t.Errorf("a third of all datagrams is lost, and nothing waited for the path: %+v", s)
	}
}
