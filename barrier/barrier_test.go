package barrier

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"ringlet/testkit/patiently"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// hub joins barriers in one process: a signal is delivered by the goroutine that
// sends it. Ranks in deaf neither get nor send anything.
type hub struct {
	barriers []*Barrier
	deaf     map[int]bool // immutable once ranks enter
	mu       sync.Mutex
	signals  int   // guarded by mu
	refused  error // guarded by mu; the first error of Deliver
}

// port is the Signaler of one rank.
type port struct {
	hub  *hub
	rank int
}

func (p port) Signal(to int, payload []byte) error {
	p.hub.mu.Lock()
	p.hub.signals++
	p.hub.mu.Unlock()
	if p.hub.deaf[to] || p.hub.deaf[p.rank] {
		return nil
	}
	err := p.hub.barriers[to].Deliver(p.rank, payload)
	if err != nil && !errors.Is(err, ErrClosed) {
		p.hub.mu.Lock()
		p.hub.refused = errors.Join(p.hub.refused, err)
		p.hub.mu.Unlock()
	}
	return nil
}

func newHub(t testing.TB, kind Kind, n int, opts Options) *hub {
	h := &hub{deaf: make(map[int]bool)}
	for r, core := range newCores(t, kind.String(), n) {
		h.barriers = append(h.barriers, New(core, port{h, r}, opts))
	}
	return h
}

// enterAll has every rank of ranks enter once, and waits for all of them.
func (h *hub) enterAll(t testing.TB, ranks []int) map[int]error {
	t.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	errs := make(map[int]error)
	for _, r := range ranks {
		wg.Go(func() {
			_, _, err := h.barriers[r].Enter(t.Context())
			mu.Lock()
			errs[r] = err
			mu.Unlock()
		})
	}
	patiently.Wait(t, wg.Wait)
	return errs
}

func upTo(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

func TestShellsKeepStep(t *testing.T) {
	for _, kind := range allKinds {
		for _, n := range []int{1, 2, 3, 5, 8} {
			for slack := range 4 {
				t.Run(fmt.Sprintf("%s %d %d", kind, n, slack), func(t *testing.T) { keepStep(t, kind, n, slack) })
			}
		}
	}
}

// keepStep takes ranks through many epochs, in which nobody gets further ahead than the slack, and finishes them.
func keepStep(t *testing.T, kind Kind, n, slack int) {
	const epochs = 200
	h := newHub(t, kind, n, Options{Slack: slack})
	entered := make([]atomic.Int64, n)
	var wg sync.WaitGroup
	for r := range n {
		wg.Go(func() {
			for e := range uint64(epochs) {
				entered[r].Add(1)
				got, _, err := h.barriers[r].Enter(t.Context())
				if got != e || err != nil {
					t.Errorf("rank %d left %d, %v, want %d", r, got, err, e)
					return
				}
				for other := range entered {
					if in := entered[other].Load(); kind != None && in+int64(slack) <= int64(e) {
						t.Errorf("rank %d left epoch %d, rank %d has entered %d", r, e, other, in)
					}
				}
			}
			held, err := h.barriers[r].Finish(t.Context())
			if err != nil || len(held) != slack {
				t.Errorf("rank %d finishes with %d epochs held, %v; it left %d open", r, len(held), err, slack)
			}
			for _, by := range held {
				if (by.Rank == Nobody) != (kind == None || n == 1) {
					t.Errorf("rank %d: an epoch was held by %d", r, by.Rank)
				}
			}
		})
	}
	patiently.Wait(t, wg.Wait)
	want := messages(kind, n) * epochs
	if h.signals != want || h.refused != nil {
		t.Errorf("%d signals, want %d; refused: %v", h.signals, want, h.refused)
	}
	for r, b := range h.barriers {
		if ended := b.Stats().Epochs; ended != epochs {
			t.Errorf("rank %d has left %d epochs", r, ended)
		}
	}
}

// TestWaitIsMeasured: rank 1 comes 3 s after the others, in virtual time.
func TestWaitIsMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub(t, Tournament, 3, Options{Timeout: time.Minute})
		var wg sync.WaitGroup
		for r := range 3 {
			wg.Go(func() {
				late := time.Duration(0)
				if r == 1 {
					late = 3 * time.Second
					time.Sleep(late)
				}
				_, wait, err := h.barriers[r].Enter(t.Context())
				if err != nil || wait != 3*time.Second-late {
					t.Errorf("rank %d waited %v, %v", r, wait, err)
				}
			})
		}
		wg.Wait()
	})
}

func TestTimeoutNamesTheMissing(t *testing.T) {
	for _, c := range []struct {
		kind    Kind
		n       int
		missing int
		dead    bool
	}{
		{Central, 4, 2, true}, {Central, 4, 0, true}, {Central, 4, 2, false}, {Central, 4, 0, false},
		{Tournament, 8, 5, true}, {Tournament, 8, 6, true}, {Tournament, 8, 0, true}, {Tournament, 5, 3, false},
		{Dissemination, 8, 5, true}, {Dissemination, 8, 6, false}, {Dissemination, 5, 0, true}, {Dissemination, 3, 1, false},
	} {
		t.Run(fmt.Sprintf("%s %d without %d", c.kind, c.n, c.missing), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHub(t, c.kind, c.n, Options{Timeout: 5 * time.Second, InquiryDuration: time.Second})
				h.deaf[c.missing] = c.dead
				others := slices.DeleteFunc(upTo(c.n), func(r int) bool { return r == c.missing })
				start := time.Now()
				for r, err := range h.enterAll(t, others) {
					var timeout *TimeoutError
					if !errors.As(err, &timeout) || !errors.Is(err, errTimeout) || !slices.Equal(timeout.Missing, []int{c.missing}) {
						t.Errorf("rank %d: %v", r, err)
						continue
					}
					if want := fmt.Sprintf("rank %d waited 6s in barrier epoch 0: rank %d missing", r,
						c.missing); err.Error() != want {
						t.Errorf("%q, want %q", err, want)
					}
				}
				if took := time.Since(start); took != 6*time.Second {
					t.Errorf("took %v", took)
				}
			})
		})
	}
}

// TestEnterGoesOnAfterATimeout: the missing rank comes after all. Those that gave
// up meet the end of epoch 0, not epoch 1, whenever they enter again.
func TestEnterGoesOnAfterATimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub(t, Central, 3, Options{Timeout: time.Second})
		for r, err := range h.enterAll(t, []int{0, 1}) {
			if !errors.Is(err, errTimeout) {
				t.Errorf("rank %d: %v", r, err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		if _, _, err := h.barriers[1].Enter(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("rank 1: %v", err)
		}
		for _, r := range []int{2, 1, 0} {
			if epoch, _, err := h.barriers[r].Enter(t.Context()); epoch != 0 || err != nil {
				t.Errorf("rank %d left %d, %v", r, epoch, err)
			}
		}
		for r, err := range h.enterAll(t, upTo(3)) {
			if report := h.barriers[r].epochs.cores[0].report(); err != nil || report.EpochsEntered != 2 {
				t.Errorf("rank %d: %v, %+v", r, err, report)
			}
		}
	})
}

// TestReleasedInGrace: the missing one comes while the others ask for it.
func TestReleasedInGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub(t, Tournament, 5, Options{Timeout: time.Second, InquiryDuration: time.Second})
		var wg sync.WaitGroup
		for r := range 5 {
			wg.Go(func() {
				if r == 3 {
					time.Sleep(1500 * time.Millisecond)
				}
				if _, _, err := h.barriers[r].Enter(t.Context()); err != nil {
					t.Errorf("rank %d: %v", r, err)
				}
			})
		}
		wg.Wait()
		if s := h.barriers[0].Stats(); s.Timeouts != 1 || s.Queries == 0 {
			t.Errorf("nobody asked: %+v", s)
		}
	})
}

func TestCloseAndBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub(t, Central, 2, Options{})
		b := h.barriers[0]
		ended := make(chan error)
		go func() {
			_, _, err := b.Enter(t.Context())
			ended <- err
		}()
		synctest.Wait()
		if _, _, err := b.Enter(t.Context()); !errors.Is(err, errBusy) {
			t.Errorf("second Enter: %v", err)
		}
		_ = b.Close()
		_ = b.Close()
		if err := <-ended; !errors.Is(err, ErrClosed) {
			t.Errorf("closed Enter: %v", err)
		}
		_, _, err := b.Enter(t.Context())
		for what, err := range map[string]error{
			"Enter": err, "Deliver": b.Deliver(1, wireOf(Message{Kind: kindArrive, From: 1})),
		} {
			if !errors.Is(err, ErrClosed) {
				t.Errorf("%s after Close: %v", what, err)
			}
		}
		if s := b.Stats(); s.AfterClose != 1 {
			t.Errorf("%+v", s)
		}
	})
}

func TestDeliverRefuses(t *testing.T) {
	b := newHub(t, Central, 3, Options{}).barriers[0]
	arrive := wireOf(Message{Kind: kindArrive, From: 1})
	for _, c := range []struct {
		name    string
		from    int
		payload []byte
		want    string
	}{
		{"nothing", 1, nil, "from rank 1: barrier message is 0 bytes long"},
		{"spoofed", 2, arrive, "it came from rank 2"},
		{"for another", 1, wireOf(Message{Kind: kindArrive, From: 1, To: 2}), "it is for another rank"},
	} {
		if err := b.Deliver(c.from, c.payload); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	if s := b.Stats(); s.Malformed != 1 || s.Spoofed != 1 || s.WrongRank != 1 {
		t.Errorf("%+v", s)
	}
}

// lossy fails for the given kind of message.
type lossy struct{ kind messageKind }

var errNoRoute = errors.New("no route")

func (l lossy) Signal(_ int, payload []byte) error {
	if m, err := parseMessage(payload); err != nil || m.Kind == l.kind {
		return errNoRoute
	}
	return nil
}

func TestSendFailures(t *testing.T) {
	core := newCores(t, "central", 2)
	b := New(core[1], lossy{kindArrive}, Options{})
	var send *sendError
	for range 2 { // it stays
		if _, _, err := b.Enter(t.Context()); !errors.As(err, &send) || !errors.Is(err, errNoRoute) {
			t.Fatal(err)
		}
	}
	if want := "barrier message «1 → 0 arrive 0» could not be sent: no route"; send.Error() != want {
		t.Errorf("%q, want %q", send, want)
	}

	// A query that cannot be sent is no failure: its rank is missing.
	synctest.Test(t, func(t *testing.T) {
		b := New(newCores(t, "central", 2)[1], lossy{kindQuery}, Options{Timeout: time.Second})
		var timeout *TimeoutError
		if _, _, err := b.Enter(t.Context()); !errors.As(err, &timeout) || !slices.Equal(timeout.Missing, []int{0}) {
			t.Error(err)
		}
		if s := b.Stats(); s.SendFailed != 1 {
			t.Errorf("%+v", s)
		}
	})
}

// TestSendFailureWakes: the failure strikes the goroutine that delivers, and is
// told to the one that waits.
func TestSendFailureWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New(newCores(t, "tournament", 4)[2], lossy{kindArrive}, Options{})
		ended := make(chan error)
		go func() {
			_, _, err := b.Enter(t.Context())
			ended <- err
		}()
		synctest.Wait()
		if err := b.Deliver(3, wireOf(Message{Kind: kindArrive, From: 3, To: 2})); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, errNoRoute) {
			t.Error(err)
		}
	})
}

func TestEndedContextDoesNotEnter(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("run 7 was stopped")
	cancel(cause)
	h := newHub(t, Central, 2, Options{})
	if _, _, err := h.barriers[1].Enter(ctx); !errors.Is(err, cause) {
		t.Error(err)
	}
	if r := h.barriers[1].epochs.cores[0].report(); r.EpochsEntered != 0 || h.signals != 0 {
		t.Errorf("%+v after %d signals", r, h.signals)
	}
}

func TestLongListsAreReadable(t *testing.T) {
	err := &TimeoutError{
		Rank:    0,
		Epoch:   3,
		Waited:  1500 * time.Millisecond,
		Missing: upTo(40),
	}
	if !strings.HasSuffix(err.Error(), "14, 15 and 24 more missing") {
		t.Error(err)
	}
	err.Missing, err.WaitingFor = nil, []int{2}
	want := "rank 0 waited 1.5s in barrier epoch 3: no rank is missing, but no message came from rank 2"
	if err.Error() != want {
		t.Error(err)
	}
}

// early notes whether the goroutine in Enter was woken before a release was sent on.
type early struct {
	b     *Barrier
	sent  int
	woken bool
}

func (e *early) Signal(_ int, payload []byte) error {
	if m, err := parseMessage(payload); err == nil && m.Kind == kindRelease {
		e.sent++
		e.woken = e.woken || len(e.b.wake) > 0
	}
	return nil
}

// TestReleaseGoesFirst: a rank hands its releases to the network before its own next phase can give it any data.
func TestReleaseGoesFirst(t *testing.T) {
	core, err := NewCore(Tournament, 4, 2) // rank 3 arrives at it, and it at rank 0
	if err != nil {
		t.Fatal(err)
	}
	e := &early{}
	e.b = New(core, e, Options{})
	if _, _, err := e.b.beginEpoch(false); err != nil {
		t.Fatal(err)
	}
	for _, m := range []Message{{Kind: kindArrive, From: 3, To: 2}, {Kind: kindRelease, From: 0, To: 2}} {
		wire := make([]byte, MessageSize)
		putMessage(wire, m)
		if err := e.b.Deliver(int(m.From), wire); err != nil {
			t.Fatal(err)
		}
	}
	if e.sent != 1 || e.woken || len(e.b.wake) != 1 {
		t.Errorf("%d releases sent; woken before: %v, after: %d", e.sent, e.woken, len(e.b.wake))
	}
}
