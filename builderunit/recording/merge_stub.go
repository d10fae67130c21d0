package recording

import (
	"context"
	"errors"
)

type MergeOptions struct{ Remove, Overwrite bool }

func Merge(ctx context.Context, dir, dst string, o MergeOptions) (Merged, error) {
	return Merged{}, errors.New("not yet")
}
