package api

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// ownership is who has control. It is a value: each step gives the next one, or says why not. The zero ownership is
// nobody's.
type ownership struct {
	name  string
	role  ecsv1.Role
	since time.Time
}

func (o ownership) message() *ecsv1.Owner {
	if o.name == "" {
		return &ecsv1.Owner{}
	}
	return &ecsv1.Owner{Name: o.name, Role: o.role, Since: timestamppb.New(o.since)}
}

// acquire gives control to the caller. Who has it already keeps it since then.
func (o ownership) acquire(c caller, force bool, now time.Time) (ownership, error) {
	if force && c.Role < ecsv1.Role_ROLE_ADMIN {
		return o, &roleError{Caller: c, Action: "take control by force", Needs: ecsv1.Role_ROLE_ADMIN}
	}
	switch {
	case o.name == c.Name:
		return o, nil
	case o.name != "" && !force:
		return o, &controlError{Owner: o.message()}
	}
	return ownership{name: c.Name, role: c.Role, since: now}, nil
}

// release gives control back. Where nobody has it that is so already; only its holder gives it back.
func (o ownership) release(c caller) (ownership, error) {
	if o.name != "" && o.name != c.Name {
		return o, &controlError{Owner: o.message()}
	}
	return ownership{}, nil
}

// checkOwner says whether a command of the caller is obeyed: where nobody has control everybody's are, that role
// permits.
func (o ownership) checkOwner(c caller) error {
	if o.name != "" && o.name != c.Name {
		return &controlError{Owner: o.message()}
	}
	return nil
}
