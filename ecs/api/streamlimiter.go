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
	// DefaultStreams bounds the open streams of all users: each costs a goroutine and a message under way.
	DefaultStreams = 256
	// MaxStreams is the greatest Config.MaxStreams.
	MaxStreams = 1 << 16
	// userShareDivisor: one user may have one part in userShareDivisor of the streams, and of the bytes under way.
	userShareDivisor = 4
	// maxBytesUnderWay bounds the bytes of messages under way in all streams. A stream counts its last message until it
	// sends the next one, since the client may not have read it.
	maxBytesUnderWay = 256 << 20
	// stallTimeout is how long a client may not read before its stream ends.
	stallTimeout = 10 * time.Second
)

// streamLimiter bounds the open streams and the bytes under way in them, in all and for each user. A user without bytes
// under way may send one message of up to maxBytes. It may be used by several goroutines.
type streamLimiter struct {
	maxStreams int   // most; immutable
	maxBytes   int64 // most; immutable

	mu          sync.Mutex
	total       usage
	usageByUser map[string]usage // without zero values
	bytesFreed  chan struct{}    // closed when bytes are freed; nil: no goroutine waits
}

// usage counts streams and bytes in use.
type usage struct {
	streams int
	bytes   int64
}

// perUser is the bound of one user's streams.
func (r *streamLimiter) perUser() int { return max(r.maxStreams/userShareDivisor, 1) }

// openStream counts a new stream of a user, or refuses it. Call closeStream at its end.
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

// closeStream frees a stream and the held bytes of its last message.
func (r *streamLimiter) closeStream(user string, held int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.addUsage(user, usage{-1, -held})
}

// trySwapBytes frees the old bytes of a message and takes those of the next, if there is room. Otherwise it takes none,
// and again is closed when bytes are freed.
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

// addUsage adds to the usage of a user and in all. The caller holds mu.
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

// waitSwapBytes is trySwapBytes that waits for room, for most at most.
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

// stalledError is the error of a stream whose client did not read.
func stalledError(most time.Duration) error {
	return status.Error(codes.ResourceExhausted, fmt.Sprintf("the client did not read the stream for %v, so it was "+
		"ended: read faster, or ask for less", most))
}
