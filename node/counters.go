package node

import (
	"reflect"
	"strings"
	"unicode"

	"ringlet/transport"
	"ringlet/transport/quic"
)

// CounterLinks begins the names of the counters of links by carrier: "link.links_quic".
const CounterLinks = "link.links_"

// countAll puts every counter of a struct of them into c, so that none that is added there is left out of the report. The field
// BytesSent becomes prefix + "bytes_sent", the field Forged of a struct Express prefix + "express_forged"; an array has one counter per carrier.
func countAll(c map[string]uint64, prefix string, stats any) {
	countFields(c, prefix, reflect.ValueOf(stats))
}

func countFields(c map[string]uint64, prefix string, v reflect.Value) {
	for i := range v.NumField() {
		f, name := v.Field(i), v.Type().Field(i).Name
		switch {
		case v.Type().Field(i).Anonymous:
			countFields(c, prefix, f)
		case f.Kind() == reflect.Struct:
			countFields(c, prefix+snake(name)+"_", f)
		case f.Kind() == reflect.Uint64:
			c[prefix+snake(name)] = f.Uint()
		case f.Kind() == reflect.Array:
			for carrier := int(transport.CarrierQUIC); carrier < min(f.Len(), int(transport.CarrierAuto)); carrier++ {
				c[prefix+snake(name)+"_"+transport.Carrier(carrier).String()] = f.Index(carrier).Uint()
			}
		}
	}
}

// isLevel tells a counter that says how much there is now from those that say how often something was.
func isLevel(name string) bool {
	return strings.HasPrefix(name, CounterLinks) || name == "link.tx_used" || name == "link.tx_free"
}

// snake makes BytesSent bytes_sent, and AESFailed aes_failed.
func snake(s string) string {
	var b strings.Builder
	for i, r := range s {
		next := i+1 < len(s) && unicode.IsLower(rune(s[i+1]))
		if i > 0 && unicode.IsUpper(r) && (next || unicode.IsLower(rune(s[i-1]))) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// LinkCounters names the counters that a report takes over from the layers below, whatever they have.
func LinkCounters() []string {
	c := map[string]uint64{}
	countLayers(c, transport.Stats{}, quic.Stats{})
	var names []string
	for name := range c {
		names = append(names, name)
	}
	return names
}

func countLayers(c map[string]uint64, links transport.Stats, network quic.Stats) {
	countAll(c, "link.", links)
	countAll(c, "socket.", network)
}
