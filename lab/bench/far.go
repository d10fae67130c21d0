package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"ringlet/internal/crc32c"
	"ringlet/node/certs"
	"ringlet/node/hostlimits"
	"ringlet/shmem"
	"ringlet/transport"
)

// FarConfig of a far process.
type FarConfig struct {
	Identity *certs.Identity
	Host     string // address to bind
	Near     string // name that the near process's certificate proved
}

// SegmentPrefix begins the names of all segments of a bench, for shmem.Sweep.
const SegmentPrefix = "ringlet-bench-"

// segmentNumber numbers segments of this process.
var segmentNumber atomic.Uint32

func segmentName(what string) string {
	return fmt.Sprintf("%s%d-%d-%s", SegmentPrefix, os.Getpid(), segmentNumber.Add(1), what)
}

// far is the far process in one session. Only the goroutine of Serve uses it.
type far struct {
	cfg            FarConfig
	hello          helloArgs
	arena          *shmem.Segment
	end            *end
	connectDone    chan error // result of connecting the link
	job            *job       // far end of a reference
	grantedWindows []shmem.Ref
	arenaID        shmem.SegmentID
	windowSize     int
	cpuAtBegin     time.Duration // when the measurement began
}

// Serve answers a near process until the connection ends, which is no error. It frees all that it made.
func Serve(ctx context.Context, conn net.Conn, cfg FarConfig) (err error) {
	f := &far{cfg: cfg}
	defer func() { err = errors.Join(err, f.close()) }()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })()
	for {
		var r request
		if err := readMessage(conn, &r); err != nil {
			if isDisconnect(err) || ctx.Err() != nil {
				return nil
			}
			return err
		}
		a, err := f.serve(ctx, &r)
		if err != nil {
			a = answer{Error: err.Error()}
		}
		if err := writeMessage(conn, a); err != nil {
			if isDisconnect(err) || ctx.Err() != nil {
				return nil
			}
			return err
		}
	}
}

// isDisconnect says whether an error means that the near process has gone: it may go at any time and says nothing.
func isDisconnect(err error) bool {
	for _, how := range []error{
		io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, net.ErrClosed, unix.ECONNRESET, unix.EPIPE,
	} {
		if errors.Is(err, how) {
			return true
		}
	}
	return false
}

// serve handles one request.
func (f *far) serve(ctx context.Context, r *request) (answer, error) {
	if err := r.validate(); err != nil {
		return answer{}, err
	}
	if r.Hello == nil && f.arena == nil {
		return answer{}, errors.New("the near process must send hello before any other request")
	}
	switch {
	case r.Hello != nil:
		return f.greet(*r.Hello)
	case r.Open != nil:
		return f.open(ctx, *r.Open)
	case r.Grant != nil:
		return f.grant(*r.Grant)
	case r.Begin != nil:
		return f.beginReference(*r.Begin)
	case r.Mark != nil:
		f.cpuAtBegin = cpuTime()
		return answer{}, nil
	case r.End != nil:
		return f.endReference(*r.End)
	case r.Close != nil:
		return answer{}, f.closeLinkOrReference()
	case f.end == nil:
		return answer{}, errors.New("there is no link")
	case r.Stop != nil:
		return f.awaitPlaced(*r.Stop)
	}
	return f.checksumWindows()
}

// greet checks the hello and makes the memory that the near process writes.
func (f *far) greet(h helloArgs) (answer, error) {
	switch {
	case f.arena != nil:
		return answer{}, errors.New("the near process has sent hello a second time")
	case h.Protocol != protocol:
		return answer{}, fmt.Errorf(
			"the near process speaks version %d of the bench's protocol, this one %d: both must be the same ringlet", h.Protocol,
			protocol)
	case h.Name != f.cfg.Near:
		return answer{}, fmt.Errorf("the near process says that it is %q, its certificate that it is %q", h.Name, f.cfg.Near)
	case h.Memory < minMemory || h.Memory > maxMemory || h.SpinNs < 0 || h.SpinNs > int64(time.Second),
		h.Procs < 0 || h.Procs > MaxProcs:
		return answer{}, fmt.Errorf("a value that the near process asks for is out of bounds: %+v", h)
	}
	limits := hostlimits.ReadSnapshot(f.cfg.Host) // before the memory is taken
	arena, err := shmem.Create(segmentName("far"), int(h.Memory))
	if err != nil {
		return answer{}, err
	}
	if h.Procs > 0 {
		runtime.GOMAXPROCS(h.Procs)
	}
	f.hello, f.arena = h, arena
	return answer{Protocol: protocol, Cores: runtime.NumCPU(), Limits: &limits}, nil
}

func (f *far) open(ctx context.Context, o openArgs) (answer, error) {
	c, ok := carrierOf(o.Carrier)
	if !ok {
		return answer{}, fmt.Errorf("carrier %q is not known here", o.Carrier)
	}
	if err := f.closeLinkOrReference(); err != nil {
		return answer{}, err
	}
	table, err := newTable(c, maxWindows)
	if err != nil {
		return answer{}, err
	}
	pages := (len(f.arena.Bytes()) + shmem.PageSize - 1) / shmem.PageSize
	seg, err := table.ExportSegment(f.arena, shmem.PageRule{PageCount: pages, Peer: nearRank, Access: shmem.AccessNwrite})
	if err != nil {
		return answer{}, errors.Join(err, table.Close())
	}
	e, err := openEnd(linkConfig{
		id:      f.cfg.Identity,
		host:    f.cfg.Host,
		spin:    f.spin(),
		carrier: c,
		view:    o.View,
		rank:    farRank,
		members: []transport.Member{{Name: f.cfg.Near}, {Name: f.cfg.Identity.Name}},
	}, table)
	if err != nil {
		return answer{}, err
	}
	f.end, f.arenaID, f.connectDone = e, seg, make(chan error, 1)
	up := f.connectDone
	go func() { up <- e.connect(ctx) }()
	return answer{Addr: e.network.Addr().String()}, nil
}

// grant revokes the windows of the last grant, and grants others.
func (f *far) grant(g grantArgs) (answer, error) {
	if f.end == nil {
		return answer{}, errors.New("there is no link")
	}
	if f.connectDone != nil {
		err := <-f.connectDone // connecting has a time-out
		f.connectDone = nil
		if err != nil {
			return answer{}, err
		}
	}
	if g.Size < 1 || g.Windows < 1 || g.Windows > maxWindows || int64(g.Size) > maxWrite ||
		g.Size*g.Windows > len(f.arena.Bytes()) {
		return answer{}, fmt.Errorf("%d windows of %d bytes do not fit into the memory of %d bytes", g.Windows, g.Size,
			len(f.arena.Bytes()))
	}
	for _, r := range f.grantedWindows {
		if err := f.end.table.Revoke(r); err != nil {
			return answer{}, err
		}
	}
	f.grantedWindows, f.windowSize = f.grantedWindows[:0], g.Size
	var packed []byte
	for i := range g.Windows {
		r, err := f.end.table.Grant(nearRank, f.arenaID, i*g.Size, g.Size, shmem.AccessNwrite)
		if err != nil {
			return answer{}, err
		}
		f.grantedWindows = append(f.grantedWindows, r)
		packed = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(packed, r.Window), r.Gen)
	}
	f.end.answersWrites.Store(g.Answer)
	f.end.placedWrites.Store(0)
	f.end.placedBytes.Store(0)
	return answer{Refs: packed}, nil
}

// placementTimeout is how long writes may take until they are counted: the writer can have an outcome before the far
// end's handler was called. The tests stretch it.
var placementTimeout = 5 * time.Second

// awaitPlaced waits for the writes, and returns their count, and the processor time since the measurement began.
func (f *far) awaitPlaced(s stopArgs) (answer, error) {
	cpu := cpuTime() - f.cpuAtBegin
	awaitPlacement(func() bool {
		return f.end.placedWrites.Load() >= s.Writes && f.end.placedBytes.Load() >= s.Bytes
	})
	return answer{
		CPUNs:   int64(cpu),
		Writes:  f.end.placedWrites.Load(),
		Bytes:   f.end.placedBytes.Load(),
		Refused: f.end.refusedWrites.Load(),
	}, nil
}

// checksumWindows returns the CRC-32C of each window. All writes have an outcome, so no write changes the memory.
func (f *far) checksumWindows() (answer, error) {
	var sums []byte
	mem := f.arena.Bytes()
	for i := range f.grantedWindows {
		sums = binary.LittleEndian.AppendUint32(sums, crc32c.Sum(mem[i*f.windowSize:(i+1)*f.windowSize]))
	}
	return answer{Sums: sums}, nil
}

// spin is how long this process looks for data before it sleeps.
func (f *far) spin() time.Duration { return time.Duration(f.hello.SpinNs) }

func (f *far) beginReference(b beginArgs) (answer, error) {
	if err := f.closeLinkOrReference(); err != nil {
		return answer{}, err
	}
	r := referenceOf(b.Reference)
	if r == nil || r.far == nil {
		return answer{}, fmt.Errorf("reference %q is not known here", b.Reference)
	}
	j, err := r.far(f)
	if err != nil {
		return answer{}, err
	}
	f.job, f.cpuAtBegin = j, cpuTime()
	return answer{Addr: j.addr}, nil
}

func (f *far) endReference(e endArgs) (answer, error) {
	if f.job == nil {
		return answer{}, errors.New("there is no reference to end: the near process has begun none")
	}
	a, err := f.job.awaitCounted(e.Bytes)
	a.CPUNs = int64(cpuTime() - f.cpuAtBegin)
	return a, errors.Join(err, f.closeLinkOrReference())
}

// closeLinkOrReference ends the link or the reference, if there is one.
func (f *far) closeLinkOrReference() error {
	var errs []error
	if f.job != nil {
		errs = append(errs, f.job.close())
		f.job = nil
	}
	if f.end != nil {
		errs = append(errs, f.end.close())
		if f.connectDone != nil {
			<-f.connectDone //nolint:errcheck // the link is closed, so its error does not matter
		}
		f.end, f.connectDone, f.grantedWindows = nil, nil, nil
	}
	return errors.Join(errs...)
}

func (f *far) close() error {
	err := f.closeLinkOrReference()
	if f.arena != nil {
		err = errors.Join(err, f.arena.Close())
	}
	return err
}

// cpuTime is what this process has used so far, in user and kernel mode.
func cpuTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
