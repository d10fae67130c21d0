package config

import (
	"fmt"
	"io"
	"reflect"

	"github.com/alecthomas/kong"
)

// Loader makes a YAML file give values to the flags of an embedded Config: kong.Configuration(config.Loader). Flags on
// the command line override them. The file is checked as strictly as by Read.
func Loader(in io.Reader) (kong.Resolver, error) {
	name := "configuration"
	if f, ok := in.(interface{ Name() string }); ok {
		name = f.Name()
	}
	c, d, err := read(name, in)
	if err != nil {
		return nil, err
	}
	r := resolver{}
	for _, f := range settingFields(&c) {
		if d.Contains(f.key) {
			r[f.flag] = fmt.Sprint(f.value.Interface())
		}
	}
	return r, nil
}

// Decimals makes kong read numbers as files are read: only decimal digits.
func Decimals() []kong.Option {
	var out []kong.Option
	for _, kind := range []reflect.Kind{reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Float32, reflect.Float64} {
		out = append(out, kong.KindMapper(kind, kong.MapperFunc(decimalFlag)))
	}
	return out
}

func decimalFlag(ctx *kong.DecodeContext, target reflect.Value) error {
	t, err := ctx.Scan.PopValue("number")
	if err != nil {
		return err
	}
	return decodeNumber(target, fmt.Sprint(t.Value))
}

// resolver maps the name of a flag to the text of its value.
type resolver map[string]string

// Resolve implements kong's interface: nil means that the file does not have the flag.
func (r resolver) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	if v, ok := r[flag.Name]; ok {
		return v, nil
	}
	return nil, nil
}

// Validate implements kong's interface. The file was checked when it was read.
func (r resolver) Validate(*kong.Application) error { return nil }
