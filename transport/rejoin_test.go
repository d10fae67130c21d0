package transport_test

import (
	"context"
	"testing"
	"time"

	"ringlet/internal/registry"
	"ringlet/node/certs"
	"ringlet/shmem"
	"ringlet/testkit/issuer"
	"ringlet/testkit/patiently"
	"ringlet/transport"
)

// TestKilledPeerComesBack holds that another process takes the place of one that was killed, in the same view: not
// before it is allowed to, and then both write to each other again.
func TestKilledPeerComesBack(t *testing.T) {
	issue := issuer.New(t)
	for _, name := range append(registry.Names(transport.Kinds), "auto") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
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
			defer func() {
				if err := p.close(); err != nil {
					t.Errorf("closing: %v", err)
				}
			}()
			id := issue("n1", certs.RoleNode)
			kill(t, p, id, name, dir).expectLinkDown(t)
			p.table.RevokePeer(1)
			before := p.ep.Stats()
			startVictim(t, id, name+" "+dir+" "+p.net.Addr().String())
			patiently.Until(t, "it dials, until it may come back", func() bool {
				return p.ep.Stats().RefusedView != before.RefusedView
			})
			p.gone.Store(true)
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			select {
			case <-p.back:
			case <-ctx.Done():
				t.Fatal("the peer does not come back")
			}
			flooded := make(chan error, 1)
			go func() { flooded <- p.flood(<-p.theirs) }()
			if err := p.grantWhenLinked(ctx); err != nil {
				t.Fatal(err)
			}
			placed := p.placed.Load()
			for p.placed.Load() < placed+20 || p.ep.Stats().WritesCompleted < before.WritesCompleted+20 {
				select {
				case err := <-p.down:
					t.Fatalf("the link is down again: %v", err)
				case err := <-flooded:
					t.Fatalf("writes fail: %v", err)
				case <-ctx.Done():
					t.Fatalf("the peer has written %d times since it is back", p.placed.Load()-placed)
				case <-time.After(time.Millisecond):
				}
			}
			if after := p.ep.Stats(); after.BytesPlaced < before.BytesPlaced ||
				after.WritesUnanswered < before.WritesUnanswered {
				t.Errorf("what was counted of the link before is lost: %+v, then %+v", before, after)
			}
		})
	}
}

// grantWhenLinked grants when the link is there, which OnRejoin tells just before.
func (p *party) grantWhenLinked(ctx context.Context) error {
	announce, err := p.grant()
	for err == nil && announce() != nil {
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	return err
}
