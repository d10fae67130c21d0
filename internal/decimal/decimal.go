package decimal

import (
	"errors"
	"regexp"
	"strconv"
	"strings"
)

// ErrForm refuses a number in a notation that other programs accept, such as 0x10 or 010.
var ErrForm = errors.New("write it in decimal digits, without a leading zero, 0x or _")

// errNumber refuses a text that is no number in any notation, or too large.
var errNumber = errors.New("it is no number, or too large")

// Int reads a whole number of that many bits. The error is ErrForm or errNumber.
func Int(text string, bits int) (int64, error) {
	n, err := strconv.ParseInt(text, 10, bits)
	if err == nil && isCanonical(strings.TrimLeft(text, "+-")) {
		return n, nil
	}
	return 0, formError(text)
}

// Uint reads a whole number that is not negative, of that many bits. The error is ErrForm or errNumber.
func Uint(text string, bits int) (uint64, error) {
	n, err := strconv.ParseUint(text, 10, bits)
	if err == nil && isCanonical(text) {
		return n, nil
	}
	return 0, formError(text)
}

// formError is ErrForm for a number in another notation, else errNumber.
func formError(text string) error {
	text = strings.TrimLeft(text, "+-")
	if _, err := strconv.ParseUint(text, 0, 64); err == nil && !isCanonical(text) || digitCount(text) > 1 &&
		text[0] == '0' {
		return ErrForm
	}
	return errNumber
}

// digitCount is the length of a text of digits alone; 0 for any other text.
func digitCount(text string) int {
	if strings.Trim(text, "0123456789") != "" {
		return 0
	}
	return len(text)
}

// isCanonical says whether a text is digits without a leading zero.
func isCanonical(text string) bool { return text == "0" || digitCount(text) > 0 && text[0] != '0' }

var floatForm = regexp.MustCompile(`^[+-]?(0|[1-9][0-9]*)?(\.[0-9]*)?([eE][+-]?[0-9]+)?$`)

// Float reads a number, perhaps with a point and an exponent. It refuses infinities and NaN. The error is ErrForm or
// errNumber.
func Float(text string) (float64, error) {
	x, err := strconv.ParseFloat(text, 64)
	switch {
	case err == nil && floatForm.MatchString(text):
		return x, nil
	case err == nil && strings.Trim(text, "+-.0123456789abcdefABCDEFxXpP_") == "", errors.Is(formError(text), ErrForm):
		return 0, ErrForm
	}
	return 0, errNumber
}
