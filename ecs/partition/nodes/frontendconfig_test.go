package nodes

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ringlet/internal/safeopen"
	"ringlet/node/config"
	"ringlet/testkit/must"
)

// TestFrontendConfigs: the files that front-ends are given are read from where inputs may be, and kept with the run,
// byte for byte.
func TestFrontendConfigs(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) { must.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)) }
	const text = "hv: [1200, \"<é>\"]\r\n# the end without a line feed"
	write("tof.yaml", text)
	write("large.yaml", strings.Repeat("x", 32<<10+1))
	write("largest.yaml", strings.Repeat("x", 32<<10))
	write("another.yaml", strings.Repeat("y", 32<<10))
	write("bad.yaml", "\xff")
	write("zero.yaml", "a\x00b")
	places := &safeopen.AllowedPaths{Dirs: []string{dir}}
	for input, why := range map[string]string{
		"tcp:h:1?config=tof.yaml,tcp:h:2?config=tof.yaml,tcp:h:3": "",
		"tcp:h:1?config=largest.yaml":                             "",
		"tcp:h:1?config=largest.yaml,tcp:h:2?config=another.yaml": "and 65536 are the most",
		"tcp:h:1?config=large.yaml":                               "large.yaml has more than 32768 bytes",
		"tcp:h:1?config=bad.yaml":                                 "is no text in UTF-8",
		"tcp:h:1?config=zero.yaml":                                "is no text in UTF-8",
		"tcp:h:1?config=none.yaml":                                "no such file",
		"tcp:h:1?config=/etc/passwd":                              "may not be read",
	} {
		cfg, err := config.Compose("", nil, []string{"input=" + input})
		must.OK(t, err)
		cfg.FrontendConfigs = "forged"
		err = prepareFrontends(&cfg, places)
		if (err == nil) != (why == "") || err != nil && !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v, want %q", input, err, why)
			continue
		}
		if err != nil {
			continue
		}
		again, err := config.Restore("", cfg.Effective())
		must.OK(t, err)
		settings, err := again.SourceSettings(0)
		must.OK(t, err)
		if strings.Contains(input, "tof.yaml") && settings.Live.Configs["tof.yaml"] != text {
			t.Errorf("the node gets %q", settings.Live.Configs)
		}
	}
}
