package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"ringlet/lab/page"
	"ringlet/lab/trial"
	"ringlet/node/certs"
	"ringlet/transport"
)

// NodesConfig has the settings that all measurements between nodes of one process share.
type NodesConfig struct {
	Version, Command string
	Carrier          string
	Spin             time.Duration // how long a node spins on its socket before it sleeps
	Host             string        // address to bind
	// Identity makes the identity of the node with that name.
	Identity func(name string) (*certs.Identity, error)
	// Progress is called with what is measured next, if there are several measurements. It may be nil.
	Progress func(what string, done, of int)
}

// Bench is a measurement between nodes of one process; the type that implements it has its settings.
type Bench[R Result] interface {
	// Validate returns the first invalid setting as a *UsageError.
	Validate() error
	// Nodes returns the settings that the caller completes.
	Nodes() *NodesConfig
	// prepare begins a report, and lists its measurements. MeasureNodes calls end after them; end may be nil.
	prepare() (report R, points []point, end func() error, err error)
}

// Result is the report of a bench.
type Result interface {
	// WriteTable prints the report as tables.
	WriteTable(w io.Writer) error
	// Failure is the error that the program ends with although there is a report, or nil.
	Failure() error
	common() *nodesReport
}

// point is one measurement. It adds its result to the report.
type point struct {
	name    string
	measure func(ctx context.Context, view uint64) error
}

// rowPoint measures a row, and appends it to a report.
func rowPoint[T any](rows *[]T, name string, measure func(ctx context.Context, view uint64) (T, error)) point {
	return point{name, func(ctx context.Context, view uint64) error {
		row, err := measure(ctx, view)
		if err == nil && ctx.Err() == nil {
			*rows = append(*rows, row)
		}
		return err
	}}
}

// MeasureNodes checks a bench's settings and takes its measurements in turn. After an interruption or an error the
// report has the measurements so far; it is nil if nothing was measured.
func MeasureNodes[R Result](ctx context.Context, b Bench[R]) (none R, err error) {
	if err := b.Validate(); err != nil {
		return none, err
	}
	report, points, end, err := b.prepare()
	if err != nil {
		return none, err
	}
	done, err := trial.Loop(ctx, points, func(i int, p point) error {
		if show := b.Nodes().Progress; show != nil && len(points) > 1 {
			show(p.name, i, len(points))
		}
		return p.measure(ctx, uint64(i+1))
	})
	if err != nil {
		err = fmt.Errorf("bench: %s: %w", points[done].name, err)
	}
	if end != nil {
		err = errors.Join(err, end())
	}
	report.common().Interrupted = ctx.Err() != nil
	if err != nil && done == 0 {
		return none, err
	}
	return report, err
}

// Nodes returns c; a caller with only a Bench needs it.
func (c *NodesConfig) Nodes() *NodesConfig { return c }

// validate checks the settings, and the duration of each measurement.
func (c *NodesConfig) validate(d time.Duration) error {
	if _, ok := carrierOf(c.Carrier); !ok {
		return usageErrorf("carrier", "%q is not one of %s", c.Carrier, strings.Join(carrierNames(), ", "))
	}
	if d < minDuration || d > 24*time.Hour {
		return usageErrorf("duration", "%s is not between %s and 24h", d, minDuration)
	}
	return checkRange("spin", c.Spin, 0, time.Second)
}

// nodesReport is the part that the reports of all such measurements share.
type nodesReport struct {
	Version     string       `json:"version"`
	Started     string       `json:"started"` // RFC 3339
	Command     string       `json:"command,omitempty"`
	Machine     page.Machine `json:"machine"`
	Carrier     string       `json:"carrier"`
	Cores       int          `json:"cores"`
	Interrupted bool         `json:"interrupted"`
}

func (c *NodesConfig) report() nodesReport {
	return nodesReport{
		Version: c.Version,
		Started: time.Now().UTC().Format(time.RFC3339),
		Command: c.Command,
		Machine: page.ThisMachine(c.Version),
		Carrier: c.Carrier,
		Cores:   runtime.NumCPU(),
	}
}

func (r *nodesReport) common() *nodesReport { return r }

var errInterrupted = errors.New("bench: interrupted")

// Failure is errInterrupted, or nil.
func (r *nodesReport) Failure() error {
	if r.Interrupted {
		return errInterrupted
	}
	return nil
}

// writeHead prints the conditions, and after an interruption what the rest of the report is.
func (r *nodesReport) writeHead(w io.Writer, until, format string, args ...any) {
	fmt.Fprintf(w, format+"\n%s\n", append(args, &r.Machine)...)
	if r.Interrupted {
		fmt.Fprintln(w, "INTERRUPTED: what follows is "+until)
	}
}

// row is one of several measurements of a report.
type row[T any] interface {
	*T
	// label is the row's name for people, and in the names of figures.
	label() (title, figure string)
	// faults counts wrong words and writes, and lost writes, and describes the first fault.
	faults() (wrong, lost uint64, why string)
}

// sumFaults counts the rows with faults, and adds up the faults.
func sumFaults[T any, P row[T]](rows []T) (bad int, wrong, lost uint64) {
	for i := range rows {
		w, l, why := P(&rows[i]).faults()
		if w+l > 0 || why != "" {
			bad++
		}
		wrong, lost = wrong+w, lost+l
	}
	return bad, wrong, lost
}

// rowsFailure is the error of a bench some of whose rows have faults.
func rowsFailure[T any, P row[T]](r *nodesReport, rows []T) error {
	if bad, _, _ := sumFaults[T, P](rows); bad > 0 {
		return fmt.Errorf("bench: %d of %d measurements had errors or losses", bad, len(rows))
	}
	return r.Failure()
}

// writeFaults prints the first fault of each row.
func writeFaults[T any, P row[T]](w io.Writer, rows []T) {
	for i := range rows {
		if _, _, why := P(&rows[i]).faults(); why != "" {
			title, _ := P(&rows[i]).label()
			fmt.Fprintf(w, "%s: %s\n", title, why)
		}
	}
}

// rowFigures has the figures of all rows, each name behind its row's. A row with a fault is an error.
func rowFigures[T any, P row[T]](rows []T) (trial.Figures, error) {
	f := trial.Figures{}
	for i := range rows {
		title, figure := P(&rows[i]).label()
		if _, _, why := P(&rows[i]).faults(); why != "" {
			return nil, fmt.Errorf("bench: %s: %s", title, why)
		}
		for name, v := range figuresOf(&rows[i]) {
			f[figure+"."+name] = v
		}
	}
	return f, nil
}

// faultyRowFigures adds to rowFigures the sums of wrong and lost.
func faultyRowFigures[T any, P row[T]](rows []T) (trial.Figures, error) {
	f, err := rowFigures[T, P](rows)
	if err != nil {
		return nil, err
	}
	_, wrong, lost := sumFaults[T, P](rows)
	f["wrong"], f["lost"] = float64(wrong), float64(lost)
	return f, nil
}

// openNodes opens n nodes and links them. It opens the highest rank first: the lower rank dials, and needs the address.
// The caller closes the nodes that were opened, also after an error.
func openNodes[N interface {
	connect(ctx context.Context) error
	address() string // the address that other nodes dial
}](ctx context.Context, c *NodesConfig, view uint64, n int, open func(linkConfig) (N, error)) ([]N, error) {
	carrier, _ := carrierOf(c.Carrier)
	all, members := make([]N, n), make([]transport.Member, n)
	for rank := range members {
		members[rank].Name = fmt.Sprintf("n%d", rank)
	}
	for rank := range slices.Backward(all) {
		id, err := c.Identity(members[rank].Name)
		if err != nil {
			return all, err
		}
		all[rank], err = open(linkConfig{
			id:      id,
			host:    c.Host,
			spin:    c.Spin,
			carrier: carrier,
			view:    view,
			members: slices.Clone(members),
			rank:    rank,
		})
		if err != nil {
			return all, err
		}
		members[rank].Addr = all[rank].address()
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, node := range all {
		g.Go(func() error { return node.connect(ctx) })
	}
	return all, g.Wait()
}
