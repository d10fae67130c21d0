package tagnet

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"ringlet/tagnet/core"
)

func TestNoticesForget(t *testing.T) {
	n := newNoticeLog(1, 1)
	most := n.keep + 2*maxOldNotices
	for i := range most + 1 {
		n.append([]core.Notice{{Sequence: uint64(i + 1), For: core.ForControl, State: core.Running}})
	}
	some, _, over := n.follow(1)
	if over || len(some) > most || some[0].Sequence == 1 || some[len(some)-1].Sequence != uint64(most+1) {
		t.Errorf("%d notices from %d to %d", len(some), some[0].Sequence, some[len(some)-1].Sequence)
	}
	if _, complete := n.from(1, core.ForBuilders); complete {
		t.Error("a builder unit is not told that notices are missing")
	}
	n.close()
	if _, moved, over := n.follow(uint64(most + 2)); !over || !isClosed(n.changed) || moved == nil {
		t.Error("closed notices do not say that they are over")
	}
}

// TestBeginSaysForWhom holds that a request says for which run and view it is, and that what is wrong with it is told.
func TestBeginSaysForWhom(t *testing.T) {
	c := twoByTwo()
	m := newBeginRequest(seventh, &c, UnitTimeouts{Attach: 90 * time.Second, Resume: 1200 * time.Millisecond})
	got, err := serverConfigOf(m)
	if err != nil || got.Run != 7 || got.View != 3 || got.AttachTimeout != 90*time.Second ||
		got.ResumeTimeout != 1200*time.Millisecond || !reflect.DeepEqual(got.Core, c) {
		t.Errorf("got %+v, %v", got, err)
	}
	m.ResumeTimeoutMs = 60_001
	if _, err := serverConfigOf(m); !errors.Is(err, errBegin) {
		t.Errorf("a broken stream for more than a minute is found wrong as %v", err)
	}
	m.Slots, m.ResumeTimeoutMs = 0, 0
	if _, err := serverConfigOf(m); !errors.Is(err, errBegin) {
		t.Errorf("no slots are found wrong as %v", err)
	}
}
