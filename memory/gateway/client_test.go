package gateway

import (
	"testing"
	"time"

	"ringlet/shmem"
	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
)

// client is a program at a gateway, as a test plays it.
type client struct {
	t   testing.TB
	seg *shmem.Segment
	*sharedMemory
	position uint64
}

// attach takes the gateway of a path; name is that of its card.
func attach(t testing.TB, dir, name string) *client {
	t.Helper()
	c := &client{t: t}
	until(t, "free gateway", func() bool {
		seg, err := shmem.Open(name, shmem.WithDir(dir))
		if err != nil {
			return false
		}
		c.sharedMemory = mapMemory(seg.Bytes())
		free, err := seg.ClaimByte(clientByte)
		must.OK(t, err)
		if !free || c.attached.Load() != 0 {
			must.OK(t, seg.Close())
			return false
		}
		c.seg = seg
		return true
	})
	c.clientState.Store(clientAttached)
	c.attached.Store(1)
	c.workBell.Wake()
	return c
}

func (c *client) add(d [descriptorSize]byte) {
	copy(c.bytes[ringAt+c.position%ringDescriptors*descriptorSize:], d[:])
	c.position++
}

func (c *client) start() {
	c.startedCount.Store(c.position)
	c.workBell.Wake()
}

// result waits for the answer to a descriptor.
func (c *client) result(position uint64) (a answer) {
	c.t.Helper()
	at := int(wordsAt + position%ringDescriptors*completionSize)
	word := shmem.Word64(c.bytes, at+8)
	for begun := time.Now(); word.Load()>>16 != position+1; {
		seq := c.completedBell.AddWaiter()
		if word.Load()>>16 != position+1 {
			c.completedBell.Sleep(seq, 10*time.Millisecond)
		}
		c.completedBell.RemoveWaiter()
		if time.Since(begun) > patiently.LongTimeout {
			c.t.Fatalf("descriptor %d has no answer", position)
		}
	}
	a.value, a.outcome, a.cause = shmem.Word64(c.bytes, at).Load(), uint8(word.Load()), Cause(word.Load()>>8)
	return a
}

// do is one request and its answer.
func (c *client) do(r request) answer {
	c.t.Helper()
	c.add(put(r))
	c.start()
	return c.result(c.position - 1)
}

func (c *client) open(segment string) (handle uint32) {
	c.t.Helper()
	n := copy(c.data, segment)
	a := c.do(request{op: opImport, piece: piece{0, 0, uint32(n)}})
	if a.outcome != outcomeDone {
		c.t.Fatal(a.cause)
	}
	return uint32(a.value)
}

func (c *client) leave() {
	c.clientState.Store(clientDetached)
	c.workBell.Wake()
	must.OK(c.t, c.seg.Close())
}
