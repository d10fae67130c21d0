package api

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"pgregory.net/rapid"
)

// TestRoomKeepsItsBounds: never more streams or bytes than may be, in all and of a user, but for the one message of a
// user that holds nothing; nobody is turned away while there is room, and everything comes back.
func TestRoomKeepsItsBounds(t *testing.T) {
	type stream struct {
		user string
		held int64
	}
	rapid.Check(t, func(t *rapid.T) {
		r := room{streams: rapid.IntRange(1, 12).Draw(t, "streams"), bytes: int64(rapid.IntRange(4, 400).Draw(t, "bytes"))}
		var open []*stream
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			of, all := map[string]taken{}, taken{}
			for _, s := range open {
				of[s.user] = taken{of[s.user].streams + 1, of[s.user].bytes + s.held}
				all = taken{all.streams + 1, all.bytes + s.held}
			}
			if r.all != all || len(r.users) != len(of) {
				t.Fatalf("%+v and %d users, want %+v and %d", r.all, len(r.users), all, len(of))
			}
			user := rapid.SampledFrom([]string{"vera", "otto", "anna", "emil", "ida"}).Draw(t, "user")
			at := -1
			if len(open) > 0 {
				at = rapid.IntRange(0, len(open)-1).Draw(t, "at")
			}
			switch step := rapid.IntRange(0, 2).Draw(t, "step"); {
			case step == 0 || at < 0:
				err := r.enter(user)
				if room := all.streams < r.streams && of[user].streams < max(r.streams/4, 1); (err == nil) != room {
					t.Fatalf("%+v, %s %+v: %v", all, user, of[user], err)
				}
				if err == nil {
					open = append(open, &stream{user: user})
				}
			case step == 1:
				s := open[at]
				r.leave(s.user, s.held)
				open = append(open[:at], open[at+1:]...)
			default:
				s, size := open[at], int64(rapid.IntRange(0, 100).Draw(t, "size"))
				others := of[s.user].bytes - s.held
				yes, _ := r.swap(s.user, s.held, size)
				if first := others == 0 && size <= r.bytes; yes && !first &&
					(others+size > r.bytes/4 || all.bytes-s.held+size > r.bytes) {
					t.Fatalf("%d bytes were let in beside %+v", size, all)
				}
				if s.held = 0; yes {
					s.held = size
				}
			}
		}
		for _, s := range open {
			r.leave(s.user, s.held)
		}
		if r.all != (taken{}) || len(r.users) > 0 {
			t.Fatalf("%+v and %v are left", r.all, r.users)
		}
	})
}

// TestAMessageWaitsForRoom: until another has gone, and not for ever.
func TestAMessageWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := room{streams: 8, bytes: 400}
		if err := r.wait(t.Context(), "vera", 0, 90, time.Second); err != nil {
			t.Fatal(err)
		}
		err := r.wait(t.Context(), "vera", 0, 20, time.Second)
		if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "those of one user 100") {
			t.Errorf("%v", err)
		}
		time.AfterFunc(time.Second/2, func() { r.swap("vera", 90, 0) })
		if err := r.wait(t.Context(), "vera", 0, 20, time.Second); err != nil {
			t.Errorf("there is room since %v", err)
		}
		if err := r.wait(t.Context(), "otto", 0, 300, time.Second); err != nil {
			t.Errorf("another user: %v", err)
		}
		ctx, end := context.WithTimeout(t.Context(), time.Second/2)
		defer end()
		if err := r.wait(ctx, "otto", 0, 300, time.Second); err == nil {
			t.Error("there was room for a second one")
		}
	})
}
