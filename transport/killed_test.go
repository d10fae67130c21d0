package transport_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"ringlet/internal/netyield"
	"ringlet/internal/registry"
	"ringlet/node/certs"
	"ringlet/shmem"
	"ringlet/testkit/issuer"
	"ringlet/testkit/patiently"
	"ringlet/transport"
	"ringlet/transport/link"
	"ringlet/transport/quic"
)

// A peer process is killed while both sides write as fast as they can. What is left must learn it by a typed error, and
// keep nothing: no goroutine, no file, no mapping.

const (
	victimEnv  = "RINGLET_TEST_VICTIM" // set in the process that is to be killed: carrier and directory
	victimSize = 1 << 20               // of a write, bytes
)

var timeout = patiently.LongTimeout // with what must come

// party is one process's end of the link between n0, the test, and n1, its victim.
type party struct {
	rank  int
	net   *quic.Network
	seg   *shmem.Segment
	table *shmem.Table
	ep    *transport.Endpoint

	theirs chan shmem.Ref // what the peer grants us
	down   chan error
	back   chan struct{} // another process has taken the peer's place
	placed atomic.Uint64
	gone   atomic.Bool // another process may take the peer's place

	exported shmem.SegmentID
}

func newParty(id *certs.Identity, rank int, dir string) (p *party, err error) {
	p = &party{rank: rank, theirs: make(chan shmem.Ref, 1), down: make(chan error, 1),
		back: make(chan struct{}, 1)}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	p.net, err = quic.Listen(quic.Config{
		Addr:      "127.0.0.1:0",
		ServerTLS: id.Server(),
		ClientTLS: id.Client,
		PeerName: func(s tls.ConnectionState) (string, error) {
			who, err := certs.PeerIdentity(s)
			return who.Name, err
		},
	})
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("ringlet-t-%d-%d", rank, os.Getpid())
	if p.table, err = shmem.NewSharedTable(name+"-table", 4, shmem.TableDir(dir)); err != nil {
		return nil, err
	}
	p.seg, err = shmem.Create(name, victimSize, shmem.WithDir(dir))
	return p, err
}

// join makes the link and tells the peer where it may write.
func (p *party) join(ctx context.Context, addrs [2]string, c transport.Carrier) error {
	peer := 1 - p.rank
	connect, err := p.open(addrs, c)
	if err != nil {
		return err
	}
	if err := connect(ctx, []int{peer}); err != nil {
		return err
	}
	announce, err := p.grant()
	if err != nil {
		return err
	}
	return announce()
}

// open makes the endpoint, and says how it connects: a process that comes back is the one that knows where the other
// is.
func (p *party) open(addrs [2]string, c transport.Carrier) (func(context.Context, []int) error, error) {
	peer := 1 - p.rank
	exported, err := p.table.ExportSegment(p.seg, shmem.PageRule{PageCount: victimSize / shmem.PageSize,
		Peer: shmem.Peer(peer), Access: shmem.AccessNwrite})
	if err != nil {
		return nil, err
	}
	p.exported = exported
	view := transport.View{Number: 7, Members: []transport.Member{{Name: "n0", Addr: addrs[0]},
		{Name: "n1", Addr: addrs[1]}}}
	p.ep = transport.New(transport.Config{
		Network:   p.net,
		Handler:   p,
		Table:     p.table,
		View:      view,
		Rank:      p.rank,
		Carrier:   c,
		MayRejoin: func(int) bool { return p.gone.Load() },
		OnRejoin: func(int) {
			p.gone.Store(false)
			p.back <- struct{}{}
		},
	})
	if p.rank == 1 && addrs[0] != "" {
		return p.ep.Reconnect, nil
	}
	return p.ep.Connect, nil
}

// grant makes a window for the peer. It returns what tells the peer.
func (p *party) grant() (announce func() error, err error) {
	peer := 1 - p.rank
	ref, err := p.table.Grant(shmem.Peer(peer), p.exported, 0, victimSize, shmem.AccessNwrite)
	if err != nil {
		return nil, err
	}
	return func() error {
		return p.ep.Signal(peer, binary.LittleEndian.AppendUint64(nil, uint64(ref.Window)<<32|uint64(ref.Gen)))
	}, nil
}

// flood writes to the peer until that fails. It does not wait for completions, so a write waits in the endpoint when
// all else is full.
func (p *party) flood(ref shmem.Ref) error {
	data := make([]byte, victimSize)
	for {
		if err := p.ep.Write(1-p.rank, link.Write{Ref: ref, Data: data}); err != nil {
			return err
		}
	}
}

func (p *party) close() error {
	var errs []error
	if p.ep != nil {
		errs = append(errs, p.ep.Close())
	}
	if p.net != nil {
		errs = append(errs, p.net.Close())
	}
	if p.table != nil {
		p.table.RevokePeer(shmem.Peer(1 - p.rank))
		errs = append(errs, p.table.Close())
	}
	if p.seg != nil {
		errs = append(errs, p.seg.Close())
	}
	return errors.Join(errs...)
}

func (p *party) Placed(int, transport.Placement)         { p.placed.Add(1) }
func (p *party) PlacedMany(int, []transport.Placement)   {}
func (p *party) Completed(int, uint64, error)            {}
func (p *party) Refused(int, transport.Placement, error) {}
func (p *party) Malformed(int, error)                    {}
func (p *party) LinkDown(_ int, err error)               { p.down <- err }
func (p *party) Signal(_ int, b []byte) {
	v := binary.LittleEndian.Uint64(b)
	p.theirs <- shmem.Ref{Window: uint32(v >> 32), Gen: uint32(v)}
}

// beVictim is the other process. It reads its keys, says where it is, and writes until it is killed.
func beVictim() error {
	id, _, err := certs.ReadBundle(os.Stdin)
	if err != nil {
		return err
	}
	args := strings.Split(os.Getenv(victimEnv)+" ", " ") // carrier, directory, and where n0 is for one that comes back
	by, err := transport.ParseChoice(args[0])
	if err != nil {
		return err
	}
	p, err := newParty(id, 1, args[1])
	if err != nil {
		return err
	}
	fmt.Println(p.net.Addr())
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if err := p.join(ctx, [2]string{args[2]}, by.Carrier); err != nil {
		return err
	}
	return p.flood(patiently.Hold(p.theirs))
}

// startVictim starts the other process and returns its address.
func startVictim(t *testing.T, id *certs.Identity, args string) (*exec.Cmd, string) {
	t.Helper()
	return startPeer(t, id, victimEnv, args)
}

// startPeer starts this test's program as another process, with a word in its environment that says as what.
func startPeer(t testing.TB, id *certs.Identity, env, args string) (*exec.Cmd, string) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), env+"="+args)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = patiently.Exit(t, cmd)
		}
	})
	if err := errors.Join(id.WriteBundle(stdin, certs.NewGossipKey()), stdin.Close()); err != nil {
		t.Fatal(err)
	}
	addr := ""
	patiently.Wait(t, func() { addr, err = bufio.NewReader(out).ReadString('\n') }, "the other process says nothing")
	if err != nil {
		t.Fatalf("the victim said nothing: %v", err)
	}
	return cmd, strings.TrimSpace(addr)
}

// holdings are what a process must give back: its open files, by what they are, and the files it has mapped.
func holdings(t *testing.T) (files, maps map[string]int) {
	t.Helper()
	files, maps = map[string]int{}, map[string]int{}
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		if at, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil { // the directory itself is closed by now
			kind, _, _ := strings.Cut(at, ":[") // sockets and pipes go by numbers
			files[kind]++
		}
	}
	text, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 5 && strings.HasPrefix(f[5], "/") {
			maps[f[5]]++
		}
	}
	return files, maps
}

// TestPeerIsKilled kills a peer over each carrier, and then waits for all links to be given up at the same time: that
// takes as long as the silent are believed to live.
func TestPeerIsKilled(t *testing.T) {
	issue := issuer.New(t)
	goroutines := goleak.IgnoreCurrent()
	netyield.Yield() // whose descriptors stay
	files, maps := holdings(t)
	var survivors []*survivor
	for _, name := range append(registry.Names(transport.Kinds), "auto") {
		dir := shmDir(t)
		t.Cleanup(func() {
			if _, err := shmem.Sweep("ringlet-t-", shmem.WithDir(dir)); err != nil {
				t.Error(err)
			}
		})
		p, err := newParty(issue("n0", certs.RoleNode), 0, dir)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = p.close() }()
		survivors = append(survivors, kill(t, p, issue("n1", certs.RoleNode), name, dir))
	}
	for _, b := range survivors {
		t.Run(b.carrier, func(t *testing.T) {
			b.expectLinkDown(t)
			if err := b.close(); err != nil {
				t.Errorf("closing: %v", err)
			}
		})
	}
	if err := goleak.Find(goroutines); err != nil {
		t.Error(err)
	}
	filesAfter, mapsAfter := holdings(t)
	if d := cmp.Diff(files, filesAfter); d != "" {
		t.Errorf("files:\n%s", d)
	}
	if d := cmp.Diff(maps, mapsAfter); d != "" {
		t.Errorf("mappings:\n%s", d)
	}
}

// survivor is a party whose peer was killed while both were writing.
type survivor struct {
	*party
	carrier string
	flooded chan error // how its own writes end
	since   time.Time
}

// kill kills the peer when both sides are writing.
func kill(t *testing.T, p *party, id *certs.Identity, name, dir string) *survivor {
	t.Helper()
	by, err := transport.ParseChoice(name)
	if err != nil {
		t.Fatal(err)
	}
	victim, addr := startVictim(t, id, name+" "+dir)
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	if err := p.join(ctx, [2]string{p.net.Addr().String(), addr}, by.Carrier); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	b := &survivor{party: p, carrier: name, flooded: make(chan error, 1)}
	ref := patiently.Receive(t, p.theirs)
	go func() { b.flooded <- p.flood(ref) }()
	for p.placed.Load() < 20 {
		select {
		case err := <-p.down:
			t.Fatalf("%s: the link is down while all live: %v", name, err)
		case err := <-b.flooded:
			t.Fatalf("%s: writes fail while all live: %v", name, err)
		case <-ctx.Done():
			t.Fatalf("%s: the victim has written %d times", name, p.placed.Load())
		case <-time.After(time.Millisecond):
		}
	}
	if err := victim.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	b.since = time.Now()
	_ = patiently.Exit(t, victim)
	return b
}

// expectLinkDown holds that both this side's writes and its handler learn that the peer is gone.
func (b *survivor) expectLinkDown(t *testing.T) {
	for what, results := range map[string]<-chan error{"its writes": b.flooded, "its handler": b.down} {
		select {
		case err := <-results:
			var down *transport.LinkError
			if !errors.As(err, &down) || down.Peer != "n1" || down.Rank != 1 {
				t.Errorf("%s: %v", what, err)
			}
			t.Logf("%s: %v, after %v", what, err, time.Since(b.since).Round(time.Millisecond))
		case <-time.After(timeout):
			t.Fatalf("%s heard nothing", what)
		}
	}
}
