package invariants

import "fmt"

// Check panics with the formatted sentence if Enabled and cond is false.
func Check(cond bool, format string, args ...any) {
	if Enabled && !cond {
		panic("invariant broken: " + fmt.Sprintf(format, args...))
	}
}
