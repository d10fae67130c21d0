package decimal

import "strconv"

// Flag is a flag of package flag for a whole number that is not negative; flag.IntVar would read 010 as eight.
type Flag[N int | uint64] struct{ To *N }

// Set implements flag.Value.
func (w Flag[N]) Set(text string) error {
	n, err := Uint(text, strconv.IntSize-1)
	if err == nil {
		*w.To = N(n)
	}
	return err
}

// String implements flag.Value: the default value.
func (w Flag[N]) String() string {
	if w.To == nil {
		return ""
	}
	return strconv.FormatUint(uint64(*w.To), 10)
}
