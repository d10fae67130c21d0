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
	// maxArguments bounds the arguments of a command in the audit log, in bytes, and maxValue one value: of a longer value
	// the log keeps the beginning and the SHA-256.
	maxArguments = 4 << 10
	maxValue     = 2 << 10
)

// leadingSettings are the settings with effects outside of the partition. They come first, so that many other settings
// cannot push them beyond maxArguments.
var leadingSettings = []string{"input", "output", "filter", "decision-output", "overwrite", "node", "remark"}

// formatArguments formats the arguments of a command in one line, a configuration as its settings. It masks values that
// look like secrets.
func formatArguments(args map[string]string) string {
	values := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(args)) { // sorted: settings come after the configuration that they change
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

// settingOrder is the sort key of a setting: its index in leadingSettings, or one behind them.
func settingOrder(name string) int {
	if i := slices.Index(leadingSettings, name); i >= 0 {
		return i
	}
	return len(leadingSettings)
}

// secretPattern matches a word such as password with the value after it. A path is no secret.
var secretPattern = regexp.MustCompile(`(?i)((?:secret|password|passwd|token|api[-_]?key)["']?(?:=|: ?| ))["']?[^/\s"'&,;][^\s"'&,;]*`)

func maskSecrets(value string) string { return secretPattern.ReplaceAllString(value, "${1}***") }

// quoteValue quotes a value. If it is longer than maxValue, quoteValue quotes only its beginning, and adds the length
// and the SHA-256 of the whole.
func quoteValue(value string) string {
	if len(value) <= maxValue {
		return strconv.Quote(value)
	}
	return fmt.Sprintf("%s… (%d bytes, SHA-256 %x)", strconv.Quote(strings.ToValidUTF8(value[:maxValue], "")), len(value),
		sha256.Sum256([]byte(value)))
}
