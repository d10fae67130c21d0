package tagnet

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"google.golang.org/grpc/codes"

	"ringlet/internal/connlimit"
	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
	"ringlet/tagnet/core"
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

// authorizer holds scope and certificate together. What the view has to say to it is the Server's to check.
type authorizer struct {
	// immutable
	identify     func(context.Context) (Caller, error)
	fence        *Fence
	log          *slog.Logger
	countRefusal func(core.Refusal)

	logLimit connlimit.LogLimiter
}

func newAuthorizer(a Access, count func(core.Refusal)) *authorizer {
	g := &authorizer{
		identify:     a.Identify,
		fence:        a.Fence,
		log:          a.Log,
		countRefusal: count,
	}
	if g.fence == nil {
		g.fence = NewFence()
	}
	if g.log == nil {
		g.log = slog.Default()
	}
	return g
}

// authorizeUnit lets a readout or builder unit in that speaks for itself.
func (g *authorizer) authorizeUnit(ctx context.Context, sc *tagnetv1.Scope) error {
	if g.identify == nil {
		return nil
	}
	who, err := g.authenticate(ctx, sc)
	if err == nil && who.Role != roleNode {
		err = g.refuse(codes.PermissionDenied, core.RefusedRole, who, sc, fmt.Sprintf("%s is a %s, and units are on nodes",
			who.Name, who.Role))
	}
	return err
}

// authorizeControl lets the control in whose term it is. What it returns is closed when that is over.
func (g *authorizer) authorizeControl(ctx context.Context, sc *tagnetv1.Scope) (superseded <-chan struct{}, err error) {
	who := Caller{Name: sc.GetName(), Role: roleControl}
	if g.identify != nil {
		if who, err = g.authenticate(ctx, sc); err != nil {
			return nil, err
		}
	}
	if who.Role != roleControl {
		return nil, g.refuse(codes.PermissionDenied, core.RefusedRole, who, sc,
			fmt.Sprintf("%s is a %s, and the scheduler takes commands from the control only", who.Name, who.Role))
	}
	if superseded, err = g.fence.Admit(termOf(sc)); err != nil {
		return nil, g.refuseFenced(who, sc, err)
	}
	return superseded, nil
}

// authorizeReader lets in whoever may read: the control whose term it is, and the nodes of the view.
func (g *authorizer) authorizeReader(ctx context.Context, sc *tagnetv1.Scope,
	member func(name string) bool) (superseded <-chan struct{},
	err error) {
	if g.identify == nil {
		return g.authorizeControl(ctx, sc)
	}
	who, err := g.authenticate(ctx, sc)
	switch {
	case err != nil:
		return nil, err
	case who.Role == roleControl:
		return g.authorizeControl(ctx, sc)
	case who.Role == roleNode && member(who.Name):
		return nil, nil // for ever
	}
	return nil, g.refuse(codes.PermissionDenied, core.RefusedRole, who, sc,
		fmt.Sprintf("%s, a %s, has no place in the view: the control and the nodes of the view may read the scheduler",
			who.Name, who.Role))
}

// authenticate is who calls, whose name the scope must have.
func (g *authorizer) authenticate(ctx context.Context, sc *tagnetv1.Scope) (Caller, error) {
	who, err := g.identify(ctx)
	if err != nil {
		return who, g.refuse(codes.Unauthenticated, core.RefusedIdentity, who, sc, err.Error())
	}
	if sc.GetName() != who.Name {
		return who, g.refuse(codes.PermissionDenied, core.RefusedIdentity, who, sc,
			fmt.Sprintf("the certificate is that of %s, which speaks for itself only and not for %q", who.Name, sc.GetName()))
	}
	return who, nil
}

// refuseFenced is the status for a control whose term is over.
func (g *authorizer) refuseFenced(who Caller, sc *tagnetv1.Scope, err error) error {
	g.reportRefusal(core.RefusedTerm, who, sc, err.Error())
	if f := AsFencedError(err); f != nil {
		return f.Status()
	}
	return err
}

func (g *authorizer) refuse(code codes.Code, why core.Refusal, who Caller, sc *tagnetv1.Scope, sentence string) error {
	g.reportRefusal(why, who, sc, sentence)
	return refusalStatus(code, why, map[string]string{"got": sc.GetName(), "want": who.Name}, "%s", sentence)
}

// reportRefusal counts a refusal, and logs it if its kind has not been logged for a while.
func (g *authorizer) reportRefusal(why core.Refusal, who Caller, sc *tagnetv1.Scope, sentence string) {
	g.countRefusal(why)
	g.warn(string(why), "the scheduler refused a call", "why", sentence, "kind", string(why), "certificate", who.Name,
		"role", who.Role, "speaks_for", sc.GetName())
}

// warn logs what has not been logged for a while, by its kind.
func (g *authorizer) warn(kind, what string, attrs ...any) {
	if suppressed, yes := g.logLimit.Allow(kind, time.Now()); yes {
		g.log.Warn(what, append(attrs, "unreported", suppressed)...)
	}
}

func termOf(sc *tagnetv1.Scope) Term { return Term{Number: sc.GetTerm(), Holder: sc.GetHolder()} }
