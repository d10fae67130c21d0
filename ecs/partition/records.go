package partition

import (
	"errors"
	"fmt"

	"ringlet/ecs/api"
	"ringlet/ecs/record"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// Records is a store as the API reads it.
type Records struct{ *record.Store }

// List returns at most limit runs before that number, newest first, and whether there are older ones. Damaged ones are left out: the
// store has said which.
func (r Records) List(before uint32, limit int) ([]*ecsv1.Run, bool, error) {
	list, err := r.Store.List(before, limit)
	return list.Runs, list.More, err
}

// Get returns the record of a run.
func (r Records) Get(number uint32) (*ecsv1.Run, error) { return found(r.Store.Get(number)) }

// Latest returns the newest record.
func (r Records) Latest() (*ecsv1.Run, error) { return found(r.Store.Latest()) }

func found(run *ecsv1.Run, err error) (*ecsv1.Run, error) {
	var none *record.NoRunError
	if errors.As(err, &none) {
		return nil, fmt.Errorf("%w: %w", api.ErrNoRun, err)
	}
	return run, err
}
