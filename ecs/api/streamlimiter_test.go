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

// TestStreamLimiterKeepsItsBounds: never more streams or bytes than may be, in all and of a user, but for the one
// message of a user that holds nothing; nobody is turned away while there is room, and everything comes back.
func TestStreamLimiterKeepsItsBounds(t *testing.T) {
	type stream struct {
		user string
		held int64
	}
	rapid.Check(t, func(t *rapid.T) {
		r := streamLimiter{maxStreams: rapid.IntRange(1, 12).Draw(t, "streams"),
			maxBytes: int64(rapid.IntRange(4, 400).Draw(t, "bytes"))}
		var open []*stream
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			of, all := map[string]usage{}, usage{}
			for _, s := range open {
				of[s.user] = usage{of[s.user].streams + 1, of[s.user].bytes + s.held}
				all = usage{all.streams + 1, all.bytes + s.held}
			}
			if r.total != all || len(r.usageByUser) != len(of) {
				t.Fatalf("%+v and %d users, want %+v and %d", r.total, len(r.usageByUser), all, len(of))
			}
			user := rapid.SampledFrom([]string{"vera", "otto", "anna", "emil", "ida"}).Draw(t, "user")
			at := -1
			if len(open) > 0 {
				at = rapid.IntRange(0, len(open)-1).Draw(t, "at")
			}
			switch step := rapid.IntRange(0, 2).Draw(t, "step"); {
			case step == 0 || at < 0:
				err := r.openStream(user)
				if fits := all.streams < r.maxStreams && of[user].streams < max(r.maxStreams/4, 1); (err == nil) != fits {
					t.Fatalf("%+v, %s %+v: %v", all, user, of[user], err)
				}
				if err == nil {
					open = append(open, &stream{user: user})
				}
			case step == 1:
				s := open[at]
				r.closeStream(s.user, s.held)
				open = append(open[:at], open[at+1:]...)
			default:
				s, size := open[at], int64(rapid.IntRange(0, 100).Draw(t, "size"))
				others := of[s.user].bytes - s.held
				yes, _ := r.trySwapBytes(s.user, s.held, size)
				if first := others == 0 && size <= r.maxBytes; yes && !first &&
					(others+size > r.maxBytes/4 || all.bytes-s.held+size > r.maxBytes) {
					t.Fatalf("%d bytes were let in beside %+v", size, all)
				}
				if s.held = 0; yes {
					s.held = size
				}
			}
		}
		for _, s := range open {
			r.closeStream(s.user, s.held)
		}
		if r.total != (usage{}) || len(r.usageByUser) > 0 {
			t.Fatalf("%+v and %v are left", r.total, r.usageByUser)
		}
	})
}

// TestAMessageWaitsForBudget: until another has gone, and not for ever.
func TestAMessageWaitsForBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := streamLimiter{maxStreams: 8, maxBytes: 400}
		if err := r.waitSwapBytes(t.Context(), "vera", 0, 90, time.Second); err != nil {
			t.Fatal(err)
		}
		err := r.waitSwapBytes(t.Context(), "vera", 0, 20, time.Second)
		if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "those of one user 100") {
			t.Errorf("%v", err)
		}
		time.AfterFunc(time.Second/2, func() { r.trySwapBytes("vera", 90, 0) })
		if err := r.waitSwapBytes(t.Context(), "vera", 0, 20, time.Second); err != nil {
			t.Errorf("there is room since %v", err)
		}
		if err := r.waitSwapBytes(t.Context(), "otto", 0, 300, time.Second); err != nil {
			t.Errorf("another user: %v", err)
		}
		ctx, end := context.WithTimeout(t.Context(), time.Second/2)
		defer end()
		if err := r.waitSwapBytes(ctx, "otto", 0, 300, time.Second); err == nil {
			t.Error("there was room for a second one")
		}
	})
}
