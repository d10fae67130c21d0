package ctl

import (
	"errors"
	"strings"
)

var (
	errQuote  = errors.New("a quotation mark is not closed")
	errEscape = errors.New("the line ends with a backslash that has nothing to quote: remove the backslash")
)

// SplitWords splits a line into words as a shell does: at blanks, but not in quotation marks of both kinds; a backslash
// quotes the next character (but not in single quotation marks); # at the beginning of a word begins a comment.
func SplitWords(line string) ([]string, error) {
	words, open, err := splitWords(line)
	if err == nil && open {
		err = errQuote
	}
	return words, err
}

// splitWords also says whether the line ends between quotation marks.
func splitWords(line string) (words []string, open bool, err error) {
	var word strings.Builder
	began := false // a word has begun; it may be empty, in quotation marks
	quote := rune(0)
	escaped := false
	end := func() {
		if began {
			words = append(words, word.String())
		}
		word.Reset()
		began = false
	}
	for _, r := range line {
		switch {
		case escaped:
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			began, escaped = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			began, quote = true, r
		case r == ' ' || r == '\t' || r == '\r' || r == '\n':
			end()
		case r == '#' && !began:
			return words, false, nil
		default:
			began = true
			word.WriteRune(r)
		}
	}
	if escaped {
		return nil, false, errEscape
	}
	end()
	return words, quote != 0, nil
}

// quote quotes a word so that SplitWords reads it as one.
func quote(word string) string {
	if word != "" && !strings.ContainsAny(word, " \t\r\n\\'\"#") {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
