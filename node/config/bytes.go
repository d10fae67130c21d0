package config

import (
	"strconv"

	"ringlet/internal/decimal"
)

// Bytes is a size in bytes. Its text form is a number with an optional unit: B, kB, MB, GB, TB are powers of 1000, KiB,
// MiB, GiB, TiB powers of 1024; case and a space before the unit do not matter. "4MiB", "1.5GB", "4096".
type Bytes int64

// ParseBytes reads the text form. A fraction is allowed; the number of bytes is rounded down.
func ParseBytes(s string) (Bytes, error) {
	n, err := decimal.Size(s)
	return Bytes(n), err
}

// UnmarshalText reads the text form, for kong and YAML.
func (b *Bytes) UnmarshalText(text []byte) error {
	v, err := ParseBytes(string(text))
	if err != nil {
		return err
	}
	*b = v
	return nil
}

// MarshalText writes the text form.
func (b Bytes) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// MarshalYAML writes a size without a unit as a number.
func (b Bytes) MarshalYAML() (any, error) {
	text := b.String()
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, nil
	}
	return text, nil
}

// String writes the size exactly, in the largest binary unit that divides it.
func (b Bytes) String() string {
	for _, u := range decimal.SizeUnits[:4] {
		if b != 0 && int64(b)%u.Size == 0 {
			return strconv.FormatInt(int64(b)/u.Size, 10) + u.Name
		}
	}
	return strconv.FormatInt(int64(b), 10)
}
