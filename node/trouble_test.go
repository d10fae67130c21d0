package node

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"ringlet/builderunit/sink"
	"ringlet/node/fsm"
	"ringlet/shmem"
	"ringlet/source"
	"ringlet/source/frames"
	"ringlet/source/live"
	"ringlet/source/shmring"
)

// The kind of trouble is that of the error, whatever words are around it.
func TestTroubleOf(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	lis, err := net.Listen("unix", filepath.Join(dir, "taken"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lis.Close() }()
	open := func(of func(live.FeedSettings) (live.Feed, error), address string) error {
		feed, err := of(live.FeedSettings{Address: address, Name: "x"})
		if err == nil {
			t.Errorf("%s could be opened", address)
			return feed.Close()
		}
		return err
	}
	tcp := func(s live.FeedSettings) (live.Feed, error) { return frames.OpenTCP(t.Context(), s) }
	path := func(s live.FeedSettings) (live.Feed, error) { return frames.OpenUnix(t.Context(), s) }
	ring := func(s live.FeedSettings) (live.Feed, error) { return shmring.Open(t.Context(), s) }
	shared := fmt.Sprintf("ringlet-test-trouble-%d", os.Getpid())
	seg, err := shmem.Create(shared, 4096)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = seg.Close() }()
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"no error":                {nil, ""},
		"no kind":                 {errors.New("something"), ""},
		"a bad record":            {fmt.Errorf("x: %w", &source.BadRecordError{}), fsm.TroubleRecord},
		"a file that has changed": {source.ErrFileChanged, fsm.TroubleChanged},
		"no such host":            {fmt.Errorf("x: %w", &net.DNSError{}), fsm.TroubleAddress},
		"no such port":            {open(tcp, "127.0.0.1:99999"), fsm.TroubleAddress},
		"another host's address":  {open(tcp, "192.0.2.1:1700"), fsm.TroubleAddress},
		"a path that is taken":    {open(path, lis.Addr().String()), fsm.TroubleAddressInUse},
		"a path of a file":        {open(path, file), fsm.TroubleExists},
		"a path into nothing":     {open(path, filepath.Join(dir, "no/a")), fsm.TroubleGone},
		"a ring that is there":    {open(ring, shared), fsm.TroubleNameInUse},
		"a full disk":             {&sink.SinkError{Cause: unix.ENOSPC}, fsm.TroubleFull},
		"an output that is gone": {errors.Join(errors.New("x"), &sink.SinkError{Cause: &fs.PathError{Err: unix.ENOENT}}),
			fsm.TroubleGone},
		"an output that is there": {&sink.SinkError{Cause: sink.ErrExists}, fsm.TroubleExists},
		"a buffer that is there":  {fmt.Errorf("x: %w", open(ring, shared)), fsm.TroubleNameInUse},
		"an output of others":     {&sink.SinkError{Cause: unix.EACCES}, fsm.TroubleDenied},
	} {
		if got := troubleOf(c.err); got != c.want {
			t.Errorf("%s (%v): %q, not %q", name, c.err, got, c.want)
		}
	}
}
