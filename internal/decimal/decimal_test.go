package decimal

import (
	"errors"
	"testing"
)

func TestWholeNumbersAreDecimalOrRefused(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "10": 10, "-1": -1, "+5": 5, "9223372036854775807": 1<<63 - 1} {
		if n, err := Int(text, 64); err != nil || n != want {
			t.Errorf("%q is %d, %v", text, n, err)
		}
	}
	for _, text := range []string{"010", "00", "0x10", "0b1", "0o7", "1_000", "-010", "08"} {
		if n, err := Int(text, 64); !errors.Is(err, ErrForm) {
			t.Errorf("%q is %d, %v", text, n, err)
		}
		if n, err := Uint(text, 64); !errors.Is(err, ErrForm) {
			t.Errorf("%q is %d, %v without a sign", text, n, err)
		}
	}
	for _, text := range []string{"", "-", "ten", "1.5", "9223372036854775808", " 1", "0x", "1e3"} {
		if n, err := Int(text, 64); err == nil || errors.Is(err, ErrForm) {
			t.Errorf("%q is %d, %v", text, n, err)
		}
	}
	if n, err := Int("300", 8); err == nil {
		t.Errorf("300 is %d of 8 bits", n)
	}
	if n, err := Uint("-1", 64); err == nil {
		t.Errorf("-1 is %d", n)
	}
	if n, err := Uint("18446744073709551615", 64); err != nil || n != 1<<64-1 {
		t.Error(n, err)
	}
}

func TestRealNumbersAreDecimalOrRefused(t *testing.T) {
	for text, want := range map[string]float64{"0": 0, "0.5": 0.5, "1e-4": 1e-4, "-2.": -2, ".25": 0.25, "10": 10} {
		if x, err := Float(text); err != nil || x != want {
			t.Errorf("%q is %v, %v", text, x, err)
		}
	}
	for _, text := range []string{"0x1p4", "010", "0x_1p-2", "01.5", "0x10"} {
		if x, err := Float(text); !errors.Is(err, ErrForm) {
			t.Errorf("%q is %v, %v", text, x, err)
		}
	}
	for _, text := range []string{"", ".", "inf", "nan", "Infinity", "1e999", "many"} {
		if x, err := Float(text); err == nil || errors.Is(err, ErrForm) {
			t.Errorf("%q is %v, %v", text, x, err)
		}
	}
}
