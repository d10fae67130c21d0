package api

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// DefaultStreams is how many streams are open at once, of all users: each costs a goroutine and what waits in it.
	DefaultStreams = 256
	// MaxStreams is the most that Config.MaxStreams may ask for.
	MaxStreams = 1 << 16
	// userShareDivisor is the share of one user in streams and bytes: one in so many.
	userShareDivisor = 4
	// maxBytesUnderWay is how many bytes of messages are on their way in all streams. What a stream holds is its last
	// message, until the next one is taken: it may still be unread.
	maxBytesUnderWay = 256 << 20
	// stallTimeout is how long a reader may stand still before its stream ends.
	stallTimeout = 10 * time.Second
)

// streamLimiter bounds streams: how many are open, and how many bytes are on their way in them; in all, and of one
// user. A user that holds nothing may have one message of any size. It may be used by several goroutines.
type streamLimiter struct {
	maxStreams int   // most; immutable
	maxBytes   int64 // most; immutable

	mu          sync.Mutex
	total       usage
	usageByUser map[string]usage // nobody is listed with zeros
	bytesFreed  chan struct{}    // closed when bytes come back; nil: nobody waits
}

// usage is what is in use.
type usage struct {
	streams int
	bytes   int64
}

// perUser is how many streams one user may have.
func (r *streamLimiter) perUser() int { return max(r.maxStreams/userShareDivisor, 1) }

// openStream begins a stream of a user, or says why it may not. The end is closeStream.
func (r *streamLimiter) openStream(user string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.total.streams >= r.maxStreams:
		return status.Errorf(codes.ResourceExhausted, "%d streams are open, which are all there can be: close one, or "+
			"start the control with a larger --max-streams", r.maxStreams)
	case r.usageByUser[user].streams >= r.perUser():
		return status.Errorf(codes.ResourceExhausted, "%s has %d streams open, which are all that one user can have: "+
			"close one, or start the control with a larger --max-streams", user, r.perUser())
	}
	r.addUsage(user, usage{streams: 1})
	return nil
}

// closeStream ends a stream that still holds so many bytes.
func (r *streamLimiter) closeStream(user string, held int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.addUsage(user, usage{-1, -held})
}

// trySwapBytes gives the bytes of a message back and takes those of the next, if there is room. Else nothing is taken,
// and the channel closes when it is worth to ask again.
func (r *streamLimiter) trySwapBytes(user string, old, size int64) (yes bool, again <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.addUsage(user, usage{bytes: -old})
	of := r.usageByUser[user].bytes
	if of == 0 && size <= r.maxBytes || of+size <= r.maxBytes/userShareDivisor && r.total.bytes+size <= r.maxBytes {
		r.addUsage(user, usage{bytes: size})
		return true, nil
	}
	if r.bytesFreed == nil {
		r.bytesFreed = make(chan struct{})
	}
	return false, r.bytesFreed
}

// addUsage changes what is in use. The caller holds mu.
func (r *streamLimiter) addUsage(user string, by usage) {
	if r.usageByUser == nil {
		r.usageByUser = map[string]usage{}
	}
	now := usage{r.usageByUser[user].streams + by.streams, r.usageByUser[user].bytes + by.bytes}
	r.total.streams += by.streams
	r.total.bytes += by.bytes
	if r.usageByUser[user] = now; now == (usage{}) {
		delete(r.usageByUser, user)
	}
	if by.bytes < 0 && r.bytesFreed != nil {
		close(r.bytesFreed)
		r.bytesFreed = nil
	}
}

// waitSwapBytes is trySwapBytes, and waits for room, so long at most.
func (r *streamLimiter) waitSwapBytes(ctx context.Context, user string, old, size int64, most time.Duration) error {
	over := time.NewTimer(most)
	defer over.Stop()
	for ; ; old = 0 {
		yes, again := r.trySwapBytes(user, old, size)
		if yes {
			return nil
		}
		select {
		case <-again:
		case <-ctx.Done():
			return ctx.Err()
		case <-over.C:
			return status.Errorf(codes.ResourceExhausted, "a message of %d bytes found no room within %v: messages on "+
				"their way have at most %d bytes, those of one user %d: read faster, ask for less, or close a stream", size,
				most, r.maxBytes, r.maxBytes/userShareDivisor)
		}
	}
}

// stalledError is the error of a stream whose reader did not read.
func stalledError(most time.Duration) error {
	return status.Error(codes.ResourceExhausted, fmt.Sprintf("the reader of the stream stood still for %v and was let "+
		"go: read what comes, or ask for less", most))
}
