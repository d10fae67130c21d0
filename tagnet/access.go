package tagnet

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"google.golang.org/grpc/codes"

	"ringlet/internal/connlimit"
	"ringlet/internal/nodename"
	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
	"ringlet/tagnet/core"
)

// Roles of callers, as their certificates name them. The scheduler refuses callers of any other role.
const (
	roleNode    = "node"
	roleControl = "control"
)

// Caller is the peer that calls, as its certificate names it.
type Caller struct {
	Name string
	Role string
}

// Access says which callers the scheduler serves.
type Access struct {
	// Identify names the caller by the certificate of the connection; its error is a sentence. With nil the scheduler
	// believes the name in every scope: for tests and benchmarks only.
	Identify func(context.Context) (Caller, error)
	// Fence refuses a control that another one has replaced. With nil the scheduler makes a Fence of its own.
	Fence *Fence
	// AllowTrigger says why this host may not receive triggers so; nil allows all.
	AllowTrigger func(Trigger) error
	// Log gets refusals, each kind once a minute at most. Nil is slog.Default.
	Log *slog.Logger
}

// authorizer checks scopes against certificates. The Server checks scopes against the view.
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

// authorizeUnit admits a caller whose certificate is that of a node and has the name in the scope. It does not look
// whether the node has a unit: the Server checks that against the view. Without Identify it admits every caller.
func (g *authorizer) authorizeUnit(ctx context.Context, sc *tagnetv1.Scope) error {
	if g.identify == nil {
		return nil
	}
	who, err := g.authenticate(ctx, sc)
	if err == nil && who.Role != roleNode {
		err = g.refuse(codes.PermissionDenied, core.RefusedRole, who, sc, fmt.Sprintf("%s is a %s, but only nodes have units",
			who.Name, who.Role))
	}
	return err
}

// authorizeControl admits the control with the highest term. superseded is closed when a control with a higher term
// calls.
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

// authorizeReader admits callers that may read: the control with the highest term, and the nodes of the view.
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
	case who.Role == roleNode && member(sc.GetName()):
		return nil, nil // a node is never superseded
	}
	return nil, g.refuse(codes.PermissionDenied, core.RefusedRole, who, sc,
		fmt.Sprintf("%s, a %s, has no place in the view: the control and the nodes of the view may read the scheduler",
			who.Name, who.Role))
}

// authenticate returns the caller. The scope must have its name, or that of a node of its process.
func (g *authorizer) authenticate(ctx context.Context, sc *tagnetv1.Scope) (Caller, error) {
	who, err := g.identify(ctx)
	if err != nil {
		return who, g.refuse(codes.Unauthenticated, core.RefusedIdentity, who, sc, err.Error())
	}
	if nodename.ProcessOf(sc.GetName()) != who.Name {
		return who, g.refuse(codes.PermissionDenied, core.RefusedIdentity, who, sc,
			fmt.Sprintf("the certificate is that of %s, which may not speak for %q", who.Name, sc.GetName()))
	}
	return who, nil
}

// refuseFenced returns the status for a control that another one has replaced.
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

// reportRefusal counts a refusal, and logs it unless its kind was logged in the last minute.
func (g *authorizer) reportRefusal(why core.Refusal, who Caller, sc *tagnetv1.Scope, sentence string) {
	g.countRefusal(why)
	g.warn(string(why), "the scheduler refused a call", "why", sentence, "kind", string(why), "certificate", who.Name,
		"role", who.Role, "speaks_for", sc.GetName())
}

// warn logs a warning, unless its kind was logged in the last minute.
func (g *authorizer) warn(kind, what string, attrs ...any) {
	if suppressed, yes := g.logLimit.Allow(kind, time.Now()); yes {
		g.log.Warn(what, append(attrs, "unreported", suppressed)...)
	}
}

func termOf(sc *tagnetv1.Scope) Term { return Term{Number: sc.GetTerm(), Holder: sc.GetHolder()} }
