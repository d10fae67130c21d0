package tagnet

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"google.golang.org/grpc/codes"

	"ringlet/internal/connlimit"
	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
)

// Roles of callers, as certificates have them. Whoever has another one has no business here.
const (
	roleNode    = "node"
	roleControl = "control"
)

// Caller is who calls, by its certificate.
type Caller struct {
	Name string
	Role string
}

// Access says who is let in.
type Access struct {
	// Identify names who calls, by the certificate of the connection; its error is a sentence. Nil believes what
	// everybody says of itself: for tests and benchmarks, and for nothing else.
	Identify func(context.Context) (Caller, error)
	// Fence refuses a control whose term is over. Nil makes one of its own.
	Fence *Fence
	// Log hears of refusals, each kind once a minute at most. Nil is slog.Default.
	Log *slog.Logger
}

// gate holds scope and certificate together. What the view has to say to it is the Server's to check.
type gate struct {
	// immutable
	identify func(context.Context) (Caller, error)
	fence    *Fence
	log      *slog.Logger
	count    func(Refusal)

	repeats connlimit.LogLimiter
}

func newGate(a Access, count func(Refusal)) *gate {
	g := &gate{
		identify: a.Identify,
		fence:    a.Fence,
		log:      a.Log,
		count:    count,
	}
	if g.fence == nil {
		g.fence = NewFence()
	}
	if g.log == nil {
		g.log = slog.Default()
	}
	return g
}

// unit lets a readout or builder unit in that speaks for itself.
func (g *gate) unit(ctx context.Context, sc *tagnetv1.Scope) error {
	if g.identify == nil {
		return nil
	}
	who, err := g.caller(ctx, sc)
	if err == nil && who.Role != roleNode {
		err = g.refuse(codes.PermissionDenied, RefusedRole, who, sc, fmt.Sprintf("%s is a %s, and units are on nodes",
			who.Name, who.Role))
	}
	return err
}

// control lets the control in whose term it is. What it returns is closed when that is over.
func (g *gate) control(ctx context.Context, sc *tagnetv1.Scope) (risen <-chan struct{}, err error) {
	who := Caller{Name: sc.GetName(), Role: roleControl}
	if g.identify != nil {
		if who, err = g.caller(ctx, sc); err != nil {
			return nil, err
		}
	}
	if who.Role != roleControl {
		return nil, g.refuse(codes.PermissionDenied, RefusedRole, who, sc,
			fmt.Sprintf("%s is a %s, and the scheduler takes commands from the control only", who.Name, who.Role))
	}
	if risen, err = g.fence.Admit(termOf(sc)); err != nil {
		return nil, g.fenced(who, sc, err)
	}
	return risen, nil
}

// reader lets in whoever may read: the control whose term it is, and the nodes of the view.
func (g *gate) reader(ctx context.Context, sc *tagnetv1.Scope, member func(name string) bool) (risen <-chan struct{},
	err error) {
	if g.identify == nil {
		return g.control(ctx, sc)
	}
	who, err := g.caller(ctx, sc)
	switch {
	case err != nil:
		return nil, err
	case who.Role == roleControl:
		return g.control(ctx, sc)
	case who.Role == roleNode && member(who.Name):
		return nil, nil // for ever
	}
	return nil, g.refuse(codes.PermissionDenied, RefusedRole, who, sc,
		fmt.Sprintf("%s, a %s, has no place in the view: the control and the nodes of the view may read the scheduler",
			who.Name, who.Role))
}

// caller is who calls, whose name the scope must have.
func (g *gate) caller(ctx context.Context, sc *tagnetv1.Scope) (Caller, error) {
	who, err := g.identify(ctx)
	if err != nil {
		return who, g.refuse(codes.Unauthenticated, RefusedIdentity, who, sc, err.Error())
	}
	if sc.GetName() != who.Name {
		return who, g.refuse(codes.PermissionDenied, RefusedIdentity, who, sc,
			fmt.Sprintf("the certificate is that of %s, which speaks for itself only and not for %q", who.Name, sc.GetName()))
	}
	return who, nil
}

// fenced is the status for a control whose term is over.
func (g *gate) fenced(who Caller, sc *tagnetv1.Scope, err error) error {
	g.tell(RefusedTerm, who, sc, err.Error())
	if f := Fenced(err); f != nil {
		return f.Status()
	}
	return err
}

func (g *gate) refuse(code codes.Code, why Refusal, who Caller, sc *tagnetv1.Scope, sentence string) error {
	g.tell(why, who, sc, sentence)
	return refusalStatus(code, why, map[string]string{"got": sc.GetName(), "want": who.Name}, "%s", sentence)
}

// tell counts a refusal, and logs it if its kind has not been logged for a while.
func (g *gate) tell(why Refusal, who Caller, sc *tagnetv1.Scope, sentence string) {
	g.count(why)
	g.warn(string(why), "the scheduler refused a call", "why", sentence, "kind", string(why), "certificate", who.Name,
		"role", who.Role, "speaks_for", sc.GetName())
}

// warn logs what has not been logged for a while, by its kind.
func (g *gate) warn(kind, what string, attrs ...any) {
	if untold, yes := g.repeats.Allow(kind, time.Now()); yes {
		g.log.Warn(what, append(attrs, "unreported", untold)...)
	}
}

func termOf(sc *tagnetv1.Scope) Term { return Term{Number: sc.GetTerm(), Holder: sc.GetHolder()} }
