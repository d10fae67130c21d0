package trial

import "context"

// Loop takes turns one after the other, and says how many are whole. It ends with the first error, or where ctx does,
// which is no error: what an interrupted turn came to is no result.
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
