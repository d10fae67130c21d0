package gateway

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ringlet/memory"
	"ringlet/node/certs"
	"ringlet/shmem"
	"ringlet/testkit/compiled"
	"ringlet/testkit/interpreted"
	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
	"ringlet/transport"
	"ringlet/transport/quic"
)

// rig is an owner of a segment and a member with gateways, in this process, and the directory of the gateways.
type rig struct {
	t       testing.TB
	dir     string
	carrier transport.CarrierKind
	spaces  []*memory.Space
	mem     []byte // of the segment "words"
	export  *memory.Export
}

const rigPages = 64

var rigs atomic.Int64

// openRig links an owner and so many members, each to the owner; rules open the segment.
func openRig(t testing.TB, carrier string, members int, rules ...memory.Pages) *rig {
	t.Helper()
	r := &rig{t: t, dir: must.MemoryDir(t)}
	for _, row := range transport.Kinds {
		if row.Name == carrier {
			r.carrier = row
		}
	}
	ca, err := certs.NewCA(0)
	must.OK(t, err)
	serial := rigs.Add(1)
	view := transport.View{Number: 1}
	nets := make([]*quic.Network, members+1)
	for rank := range nets {
		name := fmt.Sprintf("n%d", rank)
		id, err := ca.Issue(name, nil, certs.RoleNode, 0)
		must.OK(t, err)
		nets[rank], err = quic.Listen(quic.Config{
			Addr:      "127.0.0.1:0",
			ServerTLS: id.Server(),
			ClientTLS: id.Client,
			PeerName: func(state tls.ConnectionState) (string, error) {
				peer, err := certs.PeerIdentity(state)
				return peer.Name, err
			},
		})
		must.OK(t, err)
		view.Members = append(view.Members, transport.Member{Name: name, Addr: nets[rank].Addr().String()})
	}
	var opts []shmem.Option
	if !r.carrier.SameHost {
		opts = append(opts, shmem.WithDir(r.dir))
	}
	seg, err := shmem.Create(fmt.Sprintf("ringlet-t-door-%d-%d", os.Getpid(), serial), rigPages*memory.PageSize, opts...)
	must.OK(t, err)
	r.mem = seg.Bytes()
	r.spaces = make([]*memory.Space, len(nets))
	var wg sync.WaitGroup
	for rank := range r.spaces {
		table := shmem.NewTable(256)
		if r.carrier.SameHost {
			table, err = shmem.NewSharedTable(fmt.Sprintf("ringlet-t-door-%d-%d-%d", os.Getpid(), serial, rank), 256)
			must.OK(t, err)
		}
		r.spaces[rank], err = memory.New(memory.Config{Transport: transport.Config{
			Network: nets[rank],
			Table:   table,
			View:    view,
			Rank:    rank,
			Carrier: r.carrier.Carrier,
		}})
		must.OK(t, err)
		others := []int{0}
		if rank == 0 {
			others = others[:0]
			for other := 1; other <= members; other++ {
				others = append(others, other)
			}
		}
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), patiently.LongTimeout)
			defer cancel()
			if err := r.spaces[rank].Connect(ctx, others); err != nil {
				t.Error(err)
			}
		})
		t.Cleanup(func() {
			must.OK(t, r.spaces[rank].Close())
			must.OK(t, nets[rank].Close())
			must.OK(t, table.Close())
		})
	}
	patiently.Wait(t, wg.Wait)
	if len(rules) == 0 {
		rules = []memory.Pages{{Count: rigPages, Peer: memory.Everybody, Allow: memory.AllowAll}}
	}
	r.export, err = r.spaces[0].Export("words", seg, rules...)
	must.OK(t, err)
	t.Cleanup(func() { // before the spaces are closed
		must.OK(t, r.export.Close())
		must.OK(t, seg.Close())
	})
	return r
}

// open serves a gateway of a member until the end of the test, or until stop is called. Its path is given back.
func (r *rig) open(member, data int) (d *Gateway, path string, stop func()) {
	r.t.Helper()
	name := fmt.Sprintf("t-%d", member)
	d, err := New(Config{
		Space: r.spaces[member],
		Name:  name,
		Data:  data,
		Dir:   r.dir,
		Log:   slog.New(slog.NewTextHandler(testLog{r.t}, nil)),
	})
	must.OK(r.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- d.Serve(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		must.OK(r.t, patiently.Receive(r.t, served, "the gateway does not end"))
	})
	r.t.Cleanup(stop)
	return d, r.dir + "/" + segmentPrefix + name, stop
}

type testLog struct{ t testing.TB }

func (l testLog) Write(b []byte) (int, error) {
	l.t.Logf("%s", b)
	return len(b), nil
}

// until waits for something that others do.
func until(t testing.TB, what string, is func() bool) {
	t.Helper()
	for begun := time.Now(); !is(); time.Sleep(time.Millisecond) {
		if time.Since(begun) > patiently.LongTimeout {
			t.Fatalf("there is no %s", what)
		}
	}
}

// programs are clients in other languages, and how they are started; one that cannot be is skipped aloud.
var programs = map[string]func(t testing.TB, name string) []string{
	"C": func(t testing.TB, name string) []string {
		return []string{compiled.C(t, "../../clients/c", "testdata/"+name+".c")}
	},
	"Python": func(t testing.TB, name string) []string {
		return append(interpreted.Python(t, "../../clients/python"), "testdata/"+name+".py")
	},
}

// olderPrograms are the same with the clients of an earlier release, 226138c3, as they were then.
var olderPrograms = map[string]func(t testing.TB, name string) []string{
	"C of 226138c3": func(t testing.TB, name string) []string {
		return []string{compiled.C(t, "../../clients/frontend/testdata/226138c3/c", "testdata/"+name+".c")}
	},
	"Python of 226138c3": func(t testing.TB, name string) []string {
		return append(interpreted.Python(t, "../../clients/frontend/testdata/226138c3/python"), "testdata/"+name+".py")
	},
}

// start starts a program, which is dead at the end of the test. What it prints comes out of the channel at its end.
func start(t testing.TB, command []string, args ...string) (*exec.Cmd, <-chan string) {
	t.Helper()
	cmd := exec.Command(command[0], append(command[1:len(command):len(command)], args...)...)
	cmd.Stderr = os.Stderr
	pipe, err := cmd.StdoutPipe()
	must.OK(t, err)
	must.OK(t, cmd.Start())
	out := make(chan string, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b, _ := io.ReadAll(pipe)
		if err := cmd.Wait(); err != nil {
			b = fmt.Appendf(b, "%v", err)
		}
		out <- string(b)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		patiently.Receive(t, ended)
	})
	return cmd, out
}
