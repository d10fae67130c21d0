package mem

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"ringlet/internal/safeopen"
	"ringlet/memory"
	"ringlet/node/certs"
	"ringlet/shmem"
	"ringlet/transport"
	"ringlet/transport/quic"
)

const (
	ownerName  = "owner"
	ownerRank  = 0
	maxGuests  = 8
	maxWindows = 4096 // windows of a table: one for each run of pages that a guest has imported, and for each long read
	groupFile  = "group.json"
)

// group is the content of group.json.
type group struct {
	View    uint64 `json:"view"` // differs for each owner process
	Carrier string `json:"carrier"`
	Address string `json:"address"` // of the owner
}

// rankName is the name of a rank in the view and in its certificate.
func rankName(rank int) string {
	if rank == ownerRank {
		return ownerName
	}
	return fmt.Sprintf("guest%d", rank)
}

// makeCertificates makes the certificates of a group, and returns the owner's. The keys of the owner and of the
// authority never leave this process: a copy of the directory makes a process a guest, but not the owner. If the
// directory has the owner's key, as former versions wrote it, that one is used.
func makeCertificates(dir string) (*certs.Identity, error) {
	if id, err := certs.Load(dir, ownerName); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return id, err
	}
	for _, former := range [...]string{groupFile, "ca.crt", ownerName + ".crt"} {
		if err := os.Remove(filepath.Join(dir, former)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	ca, err := certs.NewCA(0)
	if err != nil {
		return nil, err
	}
	for rank := 1; rank <= maxGuests; rank++ {
		id, err := ca.Issue(rankName(rank), nil, certs.RoleNode, 0)
		if err == nil {
			err = id.Save(dir)
		}
		if err != nil {
			return nil, err
		}
	}
	return ca.Issue(ownerName, nil, certs.RoleNode, 0)
}

// Warning says what to do about the owner's private key in dir: former versions of Ringlet wrote it there. "" if dir
// has none.
func Warning(dir string) string {
	key := filepath.Join(dir, ownerName+".key")
	if _, err := os.Lstat(key); err != nil {
		return ""
	}
	return fmt.Sprintf("%s is the private key of the owner, and every user of a copy of %s can pose as the owner: delete "+
		"the file from every copy, start the owner again, and copy its directory again", key, dir)
}

func (g *group) write(dir string) error {
	text, err := json.MarshalIndent(g, "", "  ")
	if err != nil {
		return err
	}
	fresh := filepath.Join(dir, "."+groupFile)
	if err := safeopen.WriteNoFollow(fresh, bytes.NewReader(append(text, '\n')), 0o600); err != nil {
		return err
	}
	return os.Rename(fresh, filepath.Join(dir, groupFile))
}

func readGroup(dir string) (*group, error) {
	text, err := safeopen.ReadNoFollow(filepath.Join(dir, groupFile), safeopen.MaxTextSize)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf(
			"no process exports memory in %s: start ringlet mem demo --stay or ringlet mem export there: %w", dir, err)
	}
	if err != nil {
		return nil, err
	}
	return parseGroup(text)
}

func parseGroup(text []byte) (*group, error) {
	var g group
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.DisallowUnknownFields()
	if err := d.Decode(&g); err != nil {
		return nil, fmt.Errorf("%s: %w", groupFile, err)
	}
	if _, _, err := net.SplitHostPort(g.Address); err != nil {
		return nil, fmt.Errorf("%s: the owner's address: %w", groupFile, err)
	}
	return &g, nil
}

// lock claims the place of a rank in the group by a file lock, which other processes of this host see. It returns nil
// if another process holds it.
func lock(dir string, rank int) (*os.File, error) {
	f, err := safeopen.OpenFileNoFollow(filepath.Join(dir, rankName(rank)+".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
	case errors.Is(err, unix.EWOULDBLOCK):
		return nil, f.Close()
	case err != nil:
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// place is what one process of a group has: its rank, its socket, its export table, and its end of the links.
type place struct {
	group   *group
	rank    int
	net     *quic.Network
	table   *shmem.Table
	space   *memory.Space       // nil for a raw guest
	ends    *transport.Endpoint // of a raw guest only
	closers []func() error      // in the order of the opens; close calls them backwards
}

// segmentPrefix begins the names of all shared memory of this package.
const segmentPrefix = "ringlet-mem-"

func segmentName(rank int, what string) string {
	return fmt.Sprintf("%s%d-%d-%s", segmentPrefix, os.Getpid(), rank, what)
}

// openPlace opens the place of a rank, whose lock is held, and calls use to make the user of its links. For the owner,
// listen fills in g.Address.
func openPlace(id *certs.Identity, g *group, rank int, held *os.File, bind string,
	use func(p *place, cfg transport.Config) error) (*place, error) {
	p := &place{group: g, rank: rank, closers: []func() error{held.Close}}
	cfg, err := p.listen(id, bind)
	if err == nil {
		err = use(p, cfg)
	}
	if err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

// useMemory makes remote memory the user of a place's links. trace is called at each stage of a write.
func useMemory(trace func(transport.Stage)) func(*place, transport.Config) error {
	return func(p *place, cfg transport.Config) (err error) {
		cfg.Trace = trace
		if p.space, err = memory.New(memory.Config{Transport: cfg, AllowRejoin: p.rank == ownerRank}); err == nil {
			p.closers = append(p.closers, p.space.Close)
		}
		return err
	}
}

// listen makes the export table of this process, opens its QUIC socket at the address bind, and returns the
// configuration of the endpoint that uses both. place.close closes both.
func (p *place) listen(id *certs.Identity, bind string) (cfg transport.Config, err error) {
	choice, err := transport.ParseChoice(p.group.Carrier)
	if err != nil {
		return cfg, err
	}
	if choice.AllowsLocal() {
		p.table, err = shmem.NewSharedTable(segmentName(p.rank, "table"), maxWindows)
	} else {
		p.table = shmem.NewTable(maxWindows)
	}
	if err != nil {
		return cfg, err
	}
	p.closers = append(p.closers, p.table.Close)
	p.net, err = quic.Listen(quic.Config{
		Addr:      bind,
		ServerTLS: id.Server(),
		ClientTLS: id.Client,
		PeerName: func(state tls.ConnectionState) (string, error) {
			peer, err := certs.PeerIdentity(state)
			return peer.Name, err
		},
	})
	if err != nil {
		return cfg, err
	}
	p.closers = append(p.closers, p.net.Close)
	if p.rank == ownerRank {
		p.group.Address = p.net.Addr().String()
	}
	members := []transport.Member{{Name: ownerName, Addr: p.group.Address}}
	for guest := 1; guest <= maxGuests; guest++ {
		members = append(members, transport.Member{Name: rankName(guest)})
	}
	return transport.Config{
		Network:     p.net,
		Table:       p.table,
		View:        transport.View{Number: p.group.View, Members: members},
		Rank:        p.rank,
		Carrier:     choice.Carrier,
		AutoNetwork: choice.NetworkCarrier.Carrier,
	}, nil
}

// close ends the links and frees all that the place holds.
func (p *place) close() (err error) {
	for _, closeOne := range slices.Backward(p.closers) {
		err = errors.Join(err, closeOne())
	}
	return err
}
