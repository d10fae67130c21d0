package slowdata

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Bounds.
const (
	// MaxLine is how long a line of a sender or of a recording may be, in bytes, without its line feed: the longest
	// text in which each byte is written as \u00XX fits.
	MaxLine = 8192
	// maxName is how long a name may be, in bytes.
	maxName = 64
	// maxText is how long a text may be, in bytes of UTF-8.
	maxText = 1024
)

// Value is one value of slow data: a number or a text.
type Value struct {
	Name     string
	Number   float64 // unless IsText
	Text     string  // if IsText
	IsText   bool
	Time     time.Time // when it was so, by the sender's clock
	Received time.Time // when it came, by the clock of the control
	User     string    // who gave it by a command; empty: it came by a socket
}

// String is the value without its name: the number in the fewest digits, or the text.
func (v *Value) String() string {
	if v.IsText {
		return v.Text
	}
	return strconv.FormatFloat(v.Number, 'g', -1, 64)
}

// New makes a value of a name and a text: a number if the text is one. Its time is at. The error is a sentence.
func New(name, text string, at time.Time) (Value, error) {
	v := Value{Name: name, Time: at, Received: at}
	if err := v.set(text); err != nil {
		return Value{}, err
	}
	return v, v.check()
}

// errEmpty refuses a line without a value.
var errEmpty = errors.New("the line has no value: write NAME VALUE, or NAME VALUE TIME")

// Parse reads the line of a sender: NAME VALUE or NAME VALUE TIME, with blanks between them. VALUE is a number, one
// word, or a text in quotes as JSON writes it; TIME is seconds since 1970, perhaps with a fraction, or as RFC 3339
// writes it. Without a time the value is of the moment received. The error is a sentence.
func Parse(line string, received time.Time) (Value, error) {
	if !utf8.ValidString(line) {
		return Value{}, errors.New("the line is not UTF-8")
	}
	name, rest, _ := strings.Cut(strings.TrimLeft(line, " \t"), " ")
	rest = strings.Trim(rest, " \t\r")
	if name == "" || rest == "" {
		return Value{}, errEmpty
	}
	v := Value{Name: name, Time: received, Received: received}
	var err error
	if strings.HasPrefix(rest, `"`) {
		rest, err = v.setQuoted(rest)
	} else {
		var word string
		word, rest, _ = strings.Cut(rest, " ")
		err = v.set(word)
	}
	if err != nil {
		return Value{}, err
	}
	if rest = strings.TrimSpace(rest); rest != "" {
		if v.Time, err = parseTime(rest); err != nil {
			return Value{}, err
		}
	}
	return v, v.check()
}

// setQuoted sets the text in quotes at the beginning of a line, and returns what follows.
func (v *Value) setQuoted(line string) (rest string, err error) {
	d := json.NewDecoder(strings.NewReader(line))
	if err := d.Decode(&v.Text); err != nil {
		return "", fmt.Errorf("the text of %s is not as JSON writes it: it needs a closing quote, and \\ before a quote or "+
			"a backslash", shorten(v.Name))
	}
	v.IsText = true
	return line[d.InputOffset():], nil
}

// set sets a number, or a text that is none.
func (v *Value) set(text string) error {
	x, err := strconv.ParseFloat(text, 64)
	switch {
	case err == nil && (math.IsNaN(x) || math.IsInf(x, 0)), errors.Is(err, strconv.ErrRange):
		return fmt.Errorf("the value of %s, %s, is no finite number: send a word for what the sensor says", shorten(v.Name),
			shorten(text))
	case err == nil && strings.Trim(text, "+-.0123456789eE") == "":
		v.Number = x
	default:
		v.Text, v.IsText = text, true
	}
	return nil
}

// check checks the bounds of a value.
func (v *Value) check() error {
	if err := checkName(v.Name); err != nil {
		return err
	}
	switch {
	case len(v.Text) > maxText:
		return fmt.Errorf("the text of %s has %d bytes, and at most %d are kept: shorten it", v.Name, len(v.Text), maxText)
	case !utf8.ValidString(v.Text):
		return fmt.Errorf("the text of %s is not UTF-8", v.Name)
	case v.Time.UTC().Year() < 1970 || v.Time.UTC().Year() > 2200: // files have UTC
		return fmt.Errorf("the time of %s is in the year %d: send seconds since 1970", v.Name, v.Time.UTC().Year())
	}
	return nil
}

func checkName(name string) error {
	for i, r := range name {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || (r < '0' || r > '9') && !strings.ContainsRune("_.:/-", r)) {
			return fmt.Errorf("the name %s has %q: a name begins with a letter, and has letters, digits and _ . : / - only",
				shorten(name), r)
		}
	}
	if name == "" || len(name) > maxName {
		return fmt.Errorf("the name %s has %d bytes: it must have 1 to %d", shorten(name), len(name), maxName)
	}
	return nil
}

// parseTime reads seconds since 1970, or a time as RFC 3339 writes it.
func parseTime(text string) (time.Time, error) {
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return at, nil
	}
	seconds, fraction, _ := strings.Cut(text, ".")
	s, err := strconv.ParseUint(seconds, 10, 34)
	if err == nil && len(fraction) <= 9 && strings.Trim(fraction, "0123456789") == "" {
		ns, _ := strconv.ParseInt((fraction + "000000000")[:9], 10, 64) // nine digits
		return time.Unix(int64(s), ns), nil
	}
	return time.Time{}, fmt.Errorf("the time %s is neither seconds since 1970 with at most nine digits behind the point, "+
		"nor like 2026-11-29T18:00:00Z", shorten(text))
}

// shorten quotes a text for a sentence, and cuts a long one.
func shorten(text string) string {
	const most = 80
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return strconv.Quote(text)
}

// timeForm is how times stand in a recording: in UTC, to the microsecond.
const timeForm = "2006-01-02T15:04:05.000000Z"

// jsonValue is a value as it stands in a recording.
type jsonValue struct {
	Name     string          `json:"name"`
	Value    json.RawMessage `json:"value"`
	Time     string          `json:"time"`
	Received string          `json:"received"`
	User     string          `json:"user,omitempty"`
}

// AppendJSON appends the line of a recording, with its line feed.
func (v *Value) AppendJSON(dst []byte) []byte {
	var text []byte
	if v.IsText {
		text, _ = json.Marshal(v.Text) // cannot fail
	} else {
		text, _ = json.Marshal(v.Number) // it is finite
	}
	line, _ := json.Marshal(jsonValue{
		Name:     v.Name,
		Value:    text,
		Time:     v.Time.UTC().Format(timeForm),
		Received: v.Received.UTC().Format(timeForm),
		User:     v.User,
	})
	return append(append(dst, line...), '\n')
}

// ParseJSON reads a line of a recording, with or without its line feed. Keys that are not known are ignored. The error
// is a sentence.
func ParseJSON(line []byte) (v Value, err error) {
	var from jsonValue
	if err := json.Unmarshal(line, &from); err != nil {
		return Value{}, fmt.Errorf("it is no JSON object of slow data: %w", err)
	}
	v = Value{Name: from.Name, User: from.User}
	if v.Time, err = time.Parse(time.RFC3339Nano, from.Time); err == nil {
		v.Received, err = time.Parse(time.RFC3339Nano, from.Received)
	}
	if err != nil {
		return Value{}, err
	}
	if value := bytes.TrimSpace(from.Value); len(value) > 0 && value[0] == '"' {
		v.IsText = true
		err = json.Unmarshal(value, &v.Text)
	} else if len(value) == 0 || value[0] == 'n' { // null
		err = errEmpty
	} else {
		err = json.Unmarshal(value, &v.Number)
	}
	if err != nil {
		return Value{}, err
	}
	return v, v.check()
}
