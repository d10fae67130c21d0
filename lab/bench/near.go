package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"ringlet/internal/crc32c"
	"ringlet/lab/trial"
	"ringlet/node/hostlimits"
	"ringlet/shmem"
	"ringlet/transport"
)

// near is the process that measures. Only the goroutine of Run uses it.
type near struct {
	cfg           Config
	conn          net.Conn
	source        []byte // bytes that are written
	mtu           int
	view          uint64
	cellsMeasured int
	copies        *copies
	mpi           *mpi
}

// sourceSize is larger than caches, as the data of events is.
const sourceSize = 64 << 20

// newSource makes random bytes, so that no two pieces are the same.
func newSource(c *Config) []byte {
	size := max(min(sourceSize, int(c.Memory)), int(slices.Max(c.Sizes)), blockSize)
	b := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b) // it never fails
	return b
}

// maxSmallWrite is the largest size of writes, in bytes, for which the bench also measures answers, and writes of
// several pieces.
const maxSmallWrite = 1 << 10

// accountError says that the memory does not hold what was written.
type accountError struct{ What string }

func (e *accountError) Error() string { return "accounts: " + e.What }

// cell measures one carrier with writes of one size.
func (n *near) cell(ctx context.Context, c transport.CarrierKind, size int) (res trial.Figures, err error) {
	n.view++
	a, err := callFar(ctx, n.conn, request{Open: &openArgs{Carrier: c.Name, View: n.view}})
	if err != nil {
		return nil, err
	}
	var closeEnd error
	table, err := newTable(c, 1) // the near end grants nothing
	if err != nil {
		return res, err
	}
	e, err := openEnd(linkConfig{
		id:      n.cfg.Identity,
		host:    n.cfg.Host,
		spin:    n.cfg.Spin,
		carrier: c,
		view:    n.view,
		rank:    nearRank,
		members: []transport.Member{{Name: n.cfg.Identity.Name}, {Name: n.cfg.FarName, Addr: a.Addr}},
	}, table)
	if err == nil {
		if err = e.connect(ctx); err == nil {
			res = trial.Figures{}
			err = n.measureLink(ctx, e, size, res)
		}
		closeEnd = e.close()
	}
	_, closeFar := callFar(ctx, n.conn, request{Close: &noArgs{}})
	return res, errors.Join(err, closeEnd, closeFar)
}

// measureLink measures on a link that is up.
func (n *near) measureLink(ctx context.Context, e *end, size int, res trial.Figures) error {
	l, err := n.grant(ctx, size, false)
	if err != nil {
		return err
	}
	// First touch the pages, and let congestion windows grow.
	if err := runFor(n.cfg.Duration/4, func(over *atomic.Bool) error { return e.bulk(ctx, l, over) }); err != nil {
		return err
	}
	if err := n.goodput(ctx, e, l, res); err != nil {
		return err
	}
	if err := n.singles(ctx, e, l, false, "write_us", res); err != nil {
		return err
	}
	if size <= maxSmallWrite {
		before, began := l.sentWrites, time.Now()
		if err := runFor(n.cfg.Duration/2, func(over *atomic.Bool) error { return e.bulkMany(ctx, l, over) }); err != nil {
			return err
		}
		res["pieces_per_s"] = float64(l.sentWrites-before) / time.Since(began).Seconds()
	}
	if err := n.verify(ctx, l, res); err != nil {
		return err
	}
	if size > maxSmallWrite {
		return nil
	}
	if l, err = n.grant(ctx, size, true); err != nil {
		return err
	}
	return n.singles(ctx, e, l, true, "answered_us", res)
}

// singles measures writes one at a time.
func (n *near) singles(ctx context.Context, e *end, l *bulkLoad, answered bool, figure string,
	res trial.Figures) error {
	return runFor(n.cfg.Duration/4, func(over *atomic.Bool) error {
		h, err := e.singles(ctx, l, answered, over)
		if err == nil {
			putTimes(res, figure, h)
		}
		return err
	})
}

// runFor calls work with a flag that is set after d.
func runFor(d time.Duration, work func(over *atomic.Bool) error) error {
	var over atomic.Bool
	defer time.AfterFunc(d, func() { over.Store(true) }).Stop()
	return work(&over)
}

// grant asks the far process for windows of one size, as many as its memory holds.
func (n *near) grant(ctx context.Context, size int, answered bool) (*bulkLoad, error) {
	windows := min(maxWindows, int(n.cfg.Memory)/size)
	a, err := callFar(ctx, n.conn, request{Grant: &grantArgs{Size: size, Windows: windows, Answer: answered}})
	if err != nil {
		return nil, err
	}
	if len(a.Refs) != 8*windows {
		return nil, &messageError{fmt.Sprintf("it sent %d bytes of references to %d windows", len(a.Refs), windows)}
	}
	refs := make([]shmem.Ref, windows)
	for i := range refs {
		refs[i] = shmem.Ref{Window: binary.LittleEndian.Uint32(a.Refs[8*i:]), Gen: binary.LittleEndian.Uint32(a.Refs[8*i+4:])}
	}
	n.cellsMeasured++
	return newLoad(size, refs, n.source, n.cellsMeasured), nil
}

// goodput measures throughput.
func (n *near) goodput(ctx context.Context, e *end, l *bulkLoad, res trial.Figures) error {
	if _, err := callFar(ctx, n.conn, request{Mark: &noArgs{}}); err != nil {
		return err
	}
	before, sent, cpu, began := e.endpoint.Stats(), l.sentWrites, cpuTime(), time.Now()
	if err := runFor(n.cfg.Duration, func(over *atomic.Bool) error { return e.bulk(ctx, l, over) }); err != nil {
		return err
	}
	took, used, after := time.Since(began), cpuTime()-cpu, e.endpoint.Stats()
	a, err := callFar(ctx, n.conn, request{Stop: &stopArgs{Writes: l.sentWrites, Bytes: l.sentWrites * uint64(l.size)}})
	if err != nil {
		return err
	}
	bytes := (l.sentWrites - sent) * uint64(l.size)
	res["goodput_gbps"] = gbps(bytes, took)
	res["near_cpu_s_per_gb"], res["far_cpu_s_per_gb"] = perGB(used, bytes), perGB(time.Duration(a.CPUNs), bytes)
	datagrams := float64(after.DatagramsSent - before.DatagramsSent)
	res["datagrams_per_s"], res["datagram_bytes"], res["resent_share"] = datagrams/took.Seconds(), 0, 0
	if datagrams > 0 {
		res["datagram_bytes"] = float64(bytes) / datagrams
		res["resent_share"] = float64(after.DatagramsResent-before.DatagramsResent) / datagrams
	}
	return nil
}

// verify checks the accounts: all writes are in place, once each, and each window has the bytes of its last write.
func (n *near) verify(ctx context.Context, l *bulkLoad, res trial.Figures) error {
	a, err := callFar(ctx, n.conn, request{Stop: &stopArgs{Writes: l.sentWrites, Bytes: l.sentWrites * uint64(l.size)}})
	if err != nil {
		return err
	}
	sent := l.sentWrites * uint64(l.size)
	res["bytes_sent"], res["bytes_placed"] = float64(sent), float64(a.Bytes)
	res["bytes_lost"] = float64(sent) - float64(a.Bytes)
	// One write of more than 1024 datagrams is reported as several placements.
	if a.Writes < l.sentWrites || sent != a.Bytes || a.Refused > 0 {
		return &accountError{fmt.Sprintf(
			"%d writes of %d bytes were sent, %d placements of %d bytes are here, %d were refused",
			l.sentWrites, sent, a.Writes, a.Bytes, a.Refused)}
	}
	if a, err = callFar(ctx, n.conn, request{Check: &noArgs{}}); err != nil {
		return err
	}
	return l.check(a.Sums)
}

// check compares the checksum of each window with that of the piece written there last.
func (l *bulkLoad) check(sums []byte) error {
	if len(sums) != 4*len(l.refs) {
		return &messageError{fmt.Sprintf("it sent %d bytes of checksums of %d windows", len(sums), len(l.refs))}
	}
	want := map[int32]uint32{}
	for w, piece := range l.lastPiece {
		if piece < 0 {
			continue
		}
		sum, ok := want[piece]
		if !ok {
			sum = crc32c.Sum(l.pieces[piece])
			want[piece] = sum
		}
		if got := binary.LittleEndian.Uint32(sums[4*w:]); got != sum {
			return &accountError{fmt.Sprintf("window %d of %d bytes does not hold what was written last: CRC-32C %08x, not %08x",
				w, l.size, got, sum)}
		}
	}
	return nil
}

// reference measures one reference.
func (n *near) reference(ctx context.Context, name string) (trial.Figures, error) {
	r := referenceOf(name)
	if r.far == nil {
		return r.near(ctx, n, "")
	}
	a, err := callFar(ctx, n.conn, request{Begin: &beginArgs{Reference: name}})
	if err != nil {
		return nil, err
	}
	if _, err := callFar(ctx, n.conn, request{Mark: &noArgs{}}); err != nil {
		return nil, err
	}
	res, err := r.near(ctx, n, a.Addr)
	_, other := callFar(ctx, n.conn, request{Close: &noArgs{}})
	return res, errors.Join(err, other)
}

// hostWants returns what a measurement needs of a machine on which it has that number of processes.
func (c *Config) hostWants(processes int) hostlimits.Requirements {
	shm := int64(c.Memory)
	if c.PeerAddr == "" {
		shm *= 2 // for the copy as well
	}
	return hostlimits.Requirements{SocketBuffer: socketBuf, Shm: shm, Processes: processes}
}
