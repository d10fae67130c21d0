package trial

import (
	"context"
	"errors"
	"testing"
)

// TestLoop: an error ends it, and so does an interruption, which is none; an interrupted turn does not count.
func TestLoop(t *testing.T) {
	broken := errors.New("it broke")
	turns := []string{"a", "b", "c"}
	for name, tc := range map[string]struct {
		fails, interrupted string
		done               int
		err                error
	}{
		"all":                      {"", "", 3, nil},
		"an error":                 {"b", "", 1, broken},
		"an interruption":          {"", "b", 1, nil},
		"an error of interruption": {"c", "c", 2, nil},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		seen := ""
		done, err := Loop(ctx, turns, func(i int, turn string) error {
			if turns[i] != turn {
				t.Errorf("%s: turn %d is %s", name, i, turn)
			}
			if seen += turn; turn == tc.interrupted {
				cancel()
			}
			if turn == tc.fails {
				return broken
			}
			return nil
		})
		if cancel(); done != tc.done || !errors.Is(err, tc.err) || len(seen) != min(done+1, len(turns)) {
			t.Errorf("%s: %d done, %q seen, %v", name, done, seen, err)
		}
	}
}
