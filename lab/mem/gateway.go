package mem

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"golang.org/x/sync/errgroup"

	"ringlet/memory/gateway"
)

// Gateways is the configuration of OpenGateways.
type Gateways struct {
	Group   string // directory
	Name    string
	Clients int // number of gateways, each for one client at a time
	Data    int // bytes of the data area of each
}

// OpenGateways enters a group as a guest for each gateway, and serves clients on this host until ctx is done. The
// gateways are NAME-0, NAME-1 and so on. It logs to the writer to when a client comes and how it ends.
func OpenGateways(ctx context.Context, d Gateways, to io.Writer) (err error) {
	if d.Clients < 1 || d.Clients > maxGuests {
		return fmt.Errorf("%d clients: a group has room for 1 to %d", d.Clients, maxGuests)
	}
	var all []*Guest
	defer func() {
		for _, g := range all {
			err = errors.Join(err, g.Close())
		}
	}()
	log := slog.New(slog.NewTextHandler(to, nil))
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	serving, ctx := errgroup.WithContext(ctx)
	for i := range d.Clients {
		var g *Guest
		if g, err = Enter(ctx, d.Group, to); err != nil {
			break
		}
		all = append(all, g)
		var one *gateway.Gateway
		if one, err = gateway.New(gateway.Config{
			Space: g.place.space,
			Name:  fmt.Sprintf("%s-%d", d.Name, i),
			Data:  d.Data,
			Log:   log,
		}); err != nil {
			break
		}
		serving.Go(func() error { return one.Serve(ctx) })
	}
	if err == nil {
		fmt.Fprintf(to, "%q is open for %d clients on this host, each with %d bytes\n", d.Name, d.Clients, d.Data)
	} else {
		stop()
	}
	return errors.Join(err, serving.Wait())
}
