package trial

import "context"

// Loop takes turns one after the other, and returns how many are complete. It ends with the first error, or when ctx
// ends, which is no error. An interrupted turn does not count.
func Loop[T any](ctx context.Context, turns []T, measure func(i int, turn T) error) (done int, err error) {
	for i, turn := range turns {
		err := measure(i, turn)
		select {
		case <-ctx.Done():
			return i, nil
		default:
		}
		if err != nil {
			return i, err
		}
	}
	return len(turns), nil
}
