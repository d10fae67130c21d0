package api

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

const (
	// maxArguments bounds what the audit log keeps of a command's arguments, in bytes, and maxValue what of one value: of
	// longer ones it keeps the SHA-256.
	maxArguments = 4 << 10
	maxValue     = 2 << 10
)

// leadingSettings are the settings that reach outside: they come first, so that no others push them out.
var leadingSettings = []string{"input", "output", "filter", "decision-output", "overwrite", "node", "remark"}

// formatArguments are the arguments of a command in one line, a configuration as its settings. What looks like a secret
// is masked.
func formatArguments(args map[string]string) string {
	values := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(args)) { // settings come behind the configuration that they change
		value := args[name]
		var settings map[string]any
		switch {
		case value == "":
		case name == "configuration" && yaml.Unmarshal([]byte(value), &settings) == nil:
			for key, v := range settings {
				values[key] = fmt.Sprint(v)
			}
		case name == "settings":
			for line := range strings.Lines(value) {
				if key, v, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
					values[strings.TrimSpace(key)] = strings.TrimSpace(v)
				}
			}
		default:
			values[name] = value
		}
	}
	names := slices.SortedFunc(maps.Keys(values), func(a, b string) int {
		return cmp.Or(cmp.Compare(settingOrder(a), settingOrder(b)), cmp.Compare(a, b))
	})
	var out strings.Builder
	for i, name := range names {
		one := quoteWord(name) + "=" + quoteValue(maskSecrets(values[name]))
		if out.Len()+len(one) > maxArguments {
			fmt.Fprintf(&out, " and %d more", len(names)-i)
			break
		}
		if i > 0 {
			out.WriteByte(' ')
		}
		out.WriteString(one)
	}
	return out.String()
}

// settingOrder is the place of a setting among the others.
func settingOrder(name string) int {
	if i := slices.Index(leadingSettings, name); i >= 0 {
		return i
	}
	return len(leadingSettings)
}

// secretPattern are words behind which a secret stands. A path is none.
var secretPattern = regexp.MustCompile(`(?i)((?:secret|password|passwd|token|api[-_]?key)["']?(?:=|: ?| ))["']?[^/\s"'&,;][^\s"'&,;]*`)

func maskSecrets(value string) string { return secretPattern.ReplaceAllString(value, "${1}***") }

// quoteValue shows a value in one line, and of a long one its beginning and what tells it from others.
func quoteValue(value string) string {
	if len(value) <= maxValue {
		return strconv.Quote(value)
	}
	return fmt.Sprintf("%s… (%d bytes, SHA-256 %x)", strconv.Quote(strings.ToValidUTF8(value[:maxValue], "")), len(value),
		sha256.Sum256([]byte(value)))
}
