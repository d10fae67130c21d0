package shmem

import (
	"sync"
	"testing"
)

// TestWrittenBySegment counts while somebody asks, over the lives of a window, and not before or after.
func TestWrittenBySegment(t *testing.T) {
	table := NewTable(2)
	rule := PageRule{PageCount: 1, Peer: 1, Access: AccessNwrite}
	var segs [2]SegmentID
	for i := range segs {
		var err error
		if segs[i], err = table.Export(make([]byte, PageSize), rule); err != nil {
			t.Fatal(err)
		}
	}
	write := func(seg SegmentID, n uint32) {
		r, err := table.Grant(1, seg, 0, 1000, AccessNwrite)
		if err != nil {
			t.Fatal(err)
		}
		if _, v := table.Acquire(1, r, 0, n, AccessNwrite); v != 0 {
			t.Fatal(v)
		}
		table.AddWritten(r, n)
		table.Release(r)
		if err := table.Revoke(r); err != nil {
			t.Fatal(err)
		}
	}
	write(segs[0], 7)
	stop := table.CountWritten()
	write(segs[0], 100)
	write(segs[1], 10)
	write(segs[0], 200)
	live, err := table.Grant(1, segs[1], 0, 1000, AccessNwrite)
	if err != nil {
		t.Fatal(err)
	}
	table.AddWritten(live, 5)
	table.AddWritten(Ref{Window: 99}, 5) // of a peer that lies: no window, no count
	stop()
	write(segs[0], 7)
	got := make([]uint64, 2)
	if n := table.Written(got); n != 2 || got[0] != 300 || got[1] != 15 {
		t.Errorf("%d segments, %v", n, got)
	}
	if n := table.Written(got[:1]); n != 2 || got[0] != 300 {
		t.Errorf("%d segments, %v", n, got)
	}
	if n := testing.AllocsPerRun(10, func() { table.Written(got) }); n > 0 {
		t.Errorf("reading allocates %v times", n)
	}
	if names := table.SegmentNames(); len(names) != 2 || names[0] != "" {
		t.Errorf("%q", names)
	}
}

// TestWrittenWhileWindowsChange reads while two peers' windows are granted, written and revoked.
func TestWrittenWhileWindowsChange(t *testing.T) {
	const rounds, size = 2000, 64
	table := NewTable(4)
	seg, err := table.Export(make([]byte, 2*PageSize), PageRule{PageCount: 2, Peer: AnyPeer, Access: AccessNwrite})
	if err != nil {
		t.Fatal(err)
	}
	defer table.CountWritten()()
	var wg sync.WaitGroup
	for peer := range 2 {
		wg.Go(func() {
			for range rounds {
				r, err := table.Grant(Peer(peer), seg, peer*PageSize, size, AccessNwrite)
				if err != nil {
					t.Error(err)
					return
				}
				if _, v := table.Acquire(Peer(peer), r, 0, size, AccessNwrite); v != 0 {
					t.Error(v)
				}
				table.AddWritten(r, size)
				table.Release(r)
				if err := table.Revoke(r); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	got, last := make([]uint64, 1), uint64(0)
	for over := false; !over; {
		select {
		case <-done:
			over = true
		default:
		}
		if table.Written(got); got[0] < last {
			t.Fatalf("%d bytes after %d", got[0], last)
		}
		last = got[0]
	}
	if last != 2*rounds*size {
		t.Errorf("%d bytes written, %d counted", 2*rounds*size, last)
	}
}

func BenchmarkWrote(b *testing.B) {
	table := NewTable(1)
	for _, counting := range []bool{false, true} {
		name := "nobody samples"
		if counting {
			name = "sampled"
			defer table.CountWritten()()
		}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				table.AddWritten(Ref{}, 64)
			}
		})
	}
}
