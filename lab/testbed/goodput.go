package testbed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"ringlet/internal/address"
)

// A Flow is the traffic from one host to another, by their numbers.
type Flow struct{ From, To int }

// ShiftFlows has a flow from each host to the host by places further on, so each host also receives one flow.
func (b *Bed) ShiftFlows(by int) []Flow {
	var out []Flow
	for i := range b.hostNS {
		out = append(out, Flow{i, (i + by) % len(b.hostNS)})
	}
	return out
}

// Goodput measures plain TCP through the ports: bits per second received by each of the flows, which all run for the
// duration at the same time. A single flow is the reference for a port, ShiftFlows(1) for all ports and the processors
// together, flows from several hosts to one for incast.
func (b *Bed) Goodput(ctx context.Context, d time.Duration, flows ...Flow) ([]float64, error) {
	got, errs := make([]float64, len(flows)), make([]error, len(flows))
	var wg sync.WaitGroup
	for i, f := range flows {
		if max(f.From, f.To) >= len(b.hostNS) || min(f.From, f.To) < 0 {
			return nil, fmt.Errorf("there is no flow from host %d to %d among %d", f.From, f.To, len(b.hostNS))
		}
		wg.Go(func() {
			if got[i], errs[i] = b.flow(ctx, d, f); errs[i] != nil {
				errs[i] = fmt.Errorf("from %s to %s: %w", hostName(f.From), hostName(f.To), errs[i])
			}
		})
	}
	wg.Wait()
	return got, errors.Join(errs...)
}

// flow measures one flow.
func (b *Bed) flow(ctx context.Context, d time.Duration, f Flow) (float64, error) {
	var lis net.Listener
	var in, out net.Conn
	err := b.hostNS[f.To].Do(func() (err error) {
		lis, err = address.ListenTCP(b.Address(f.To) + ":0")
		return err
	})
	if err != nil {
		return 0, err
	}
	defer func() { _ = lis.Close() }()
	defer context.AfterFunc(ctx, func() { _ = lis.Close() })()
	err = b.hostNS[f.From].Do(func() (err error) {
		out, err = (&net.Dialer{}).DialContext(ctx, "tcp", lis.Addr().String())
		return err
	})
	if err != nil {
		return 0, err
	}
	defer func() { _ = out.Close() }()
	if in, err = lis.Accept(); err != nil {
		return 0, errors.Join(ctx.Err(), err)
	}
	defer func() { _ = in.Close() }()
	began := time.Now()
	stop := func() { _ = errors.Join(in.SetDeadline(began), out.SetDeadline(began)) }
	defer context.AfterFunc(ctx, stop)()
	defer time.AfterFunc(d, stop).Stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		for block := make([]byte, 1<<20); ; {
			if _, err := out.Write(block); err != nil {
				return // the deadline
			}
		}
	})
	n, err := io.Copy(io.Discard, onlyReader{in})
	if time.Since(began) < d {
		return 0, errors.Join(ctx.Err(), err)
	}
	return float64(n) * 8 / time.Since(began).Seconds(), nil
}

// onlyReader hides the connection's ReadFrom and WriteTo, so that io.Copy does not splice.
type onlyReader struct{ io.Reader }
