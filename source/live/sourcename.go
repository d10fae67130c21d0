package live

import (
	"fmt"
	"strings"
)

// maxSourceName is the longest name of a source, in bytes.
const maxSourceName = 32

// CheckSourceName refuses a name that could not stand in messages, tables and the names of columns.
func CheckSourceName(name string) error {
	isLetter := func(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }
	isOther := func(r rune) bool { return isLetter(r) || r >= '0' && r <= '9' || r == '_' || r == '-' }
	if name == "" || len(name) > maxSourceName || !isLetter(rune(name[0])) || strings.TrimFunc(name, isOther) != "" {
		return fmt.Errorf("%q is no name of a source: a name has 1 to %d letters, digits, _ and -, and begins with a letter",
			name, maxSourceName)
	}
	return nil
}
