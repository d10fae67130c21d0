package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ringlet/testkit/patiently"
)

func TestProposals(t *testing.T) {
	parser, err := newParser(&cli{})
	if err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"co":                        "control config completion",
		"completion ":               "bash zsh fish", // words is for the scripts
		"run --disc":                "--discipline",
		"run --discipline ":         "shift push tagring tagring-wait pull free",
		"run --discipline p":        "push pull",
		"run --discipline=p":        "--discipline=push --discipline=pull",
		"run --json --phase-end c":  "central count",
		"run --packing ":            "",
		"bench sw":                  "sweep",
		"bench sweep --re":          "--resume",
		"bench sweep file.yaml ben": "",
		"inspect --mode=":           "--mode=summary --mode=dump --mode=verify",
		"ctl --control x st":        "from the control",
		"ctl --con":                 "--control",
		"nonsense ":                 "run control node ctl inspect gen certs bench testbed config plan completion version",
	} {
		words, word := strings.Fields(line), ""
		if n := len(words); n > 0 && !strings.HasSuffix(line, " ") {
			words, word = words[:n-1], words[n-1]
		}
		got := proposals(parser.Model.Node, words, word, func() []string { return []string{"from the control"} })
		if line == "nonsense " {
			want = strings.Join(got, " ") // whatever commands there are
			if !slices.Contains(got, "run") {
				t.Errorf("%q: %q", line, got)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}

// The shells are asked whether they read their scripts, and bash what it proposes; what fish and zsh propose see below.
func TestCompletionScripts(t *testing.T) {
	for shell, c := range map[string]interface{ Run(to streams) error }{
		"bash": bashCmd{}, "zsh": zshCmd{}, "fish": fishCmd{},
	} {
		t.Run(shell, func(t *testing.T) {
			var script bytes.Buffer
			if err := c.Run(streams{out: &script}); err != nil || !strings.Contains(script.String(), "ringlet") {
				t.Fatalf("%v, %q", err, &script)
			}
			lookFor(t, shell)
			cmd := exec.Command(shell, "-n")
			cmd.Stdin = &script
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
		})
	}
	if _, err := exec.LookPath("bash"); err != nil {
		return
	}
	dir := completionDir(t)
	for line, want := range map[string]string{
		"ringlet bench sw":             "sweep",
		"~/ringlet bench sw":           "sweep",
		"ringlet run --discipline=pul": "pull", // = divides words in bash
		"ringlet run --discipline pul": "pull",
		"ringlet ctl load pack":        "",
		"ringlet ctl wat":              "watch",
	} {
		cmd := exec.Command("bash", "-c", bashScript+`
compopt() { :; }
COMP_LINE=$1 COMP_POINT=${#1} COMP_WORDS=("${1%% *}")
_ringlet
printf '%s\n' "${COMPREPLY[@]}"`, "bash", line)
		var out, complaints bytes.Buffer
		cmd.Env = append(os.Environ(), "GORACE="+raceAtOnce, "HOME="+dir)
		cmd.Stdout, cmd.Stderr = &out, &complaints
		if err := cmd.Run(); err != nil || strings.TrimSpace(out.String()) != want {
			t.Errorf("%q: %v, %q, want %q\n%s", line, err, out.String(), want, &complaints)
		}
	}
}

// lookFor skips the test aloud where a shell is not there.
func lookFor(t *testing.T, shell string) {
	t.Helper()
	if _, err := exec.LookPath(shell); err != nil {
		t.Skipf("no %s here: its completion is not tried", shell)
	}
}

// completionDir is a directory with one file in it, file.yaml, and a program ringlet.
func completionDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	program, err := exec.LookPath("ringlet")
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		os.WriteFile(filepath.Join(dir, "file.yaml"), nil, 0o600), os.Symlink(program, filepath.Join(dir, "ringlet")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Fish says itself what it would propose.
func TestFishCompletes(t *testing.T) {
	lookFor(t, "fish")
	dir := completionDir(t)
	for line, want := range map[string]string{
		"ringlet bench sw":                "sweep",
		"ringlet run --discipline ":       "free pull shift tagring tagring-wait", // and no files
		"ringlet run --discipline=pul":    "--discipline=pull",
		"ringlet run --config=fi":         "--config=file.yaml",
		"ringlet config check fi":         "file.yaml",
		"ringlet ctl wat":                 "watch",
		"./ringlet bench sw":              "sweep",
		"~/ringlet bench sw":              "sweep",
		"nosuch/ringlet bench sw":         "", // and no complaint
		"true; X=1 ringlet bench sw":      "sweep",
		`ringlet run --output "a b" --du`: "--duration",
	} {
		cmd := exec.CommandContext(t.Context(), "fish", "--no-config", "-c",
			"ringlet completion fish | source; complete -C $argv[1]", line)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GORACE="+raceAtOnce, "HOME="+dir)
		var complaints bytes.Buffer
		cmd.Stderr = &complaints
		out, err := cmd.Output()
		if got := strings.Join(strings.Fields(string(out)), " "); err != nil || got != want || complaints.Len() > 0 {
			t.Errorf("%q: %v, %q, want %q\n%s", line, err, got, want, &complaints)
		}
	}
}

// zshSession is typed into by the outer shell, which waits until the inner one has completed the line and said so.
const zshSession = `zmodload zsh/zpty
zpty inner zsh -i
zpty -r inner said '*ready>*' || exit 3
zpty -w -n inner "$1"$'\t'
zpty -r inner said "*$2*" || exit 4
zpty -d inner
`

// Zsh completes in a terminal only, so it is given one. What is added to the line is not typed, so it is seen only if
// it was completed.
func TestZshCompletes(t *testing.T) {
	lookFor(t, "zsh")
	const (
		sourced = "autoload -U compinit; compinit -D -u; source <(ringlet completion zsh)"
		inFpath = "ringlet completion zsh >$HOME/_ringlet; fpath=($HOME $fpath); autoload -U compinit; compinit -D -u"
	)
	for _, c := range []struct{ how, line, adds string }{
		{sourced, "ringlet bench sw", "eep"},
		{inFpath, "ringlet bench sw", "eep"},
		{sourced, "ringlet run --discipline=pu", "ll"},
		{sourced, "ringlet run --config=fi", "le.yaml"},
		{sourced, "ringlet config check fi", "le.yaml"},
		{sourced, "~/ringlet bench sw", "eep"},
		{sourced, "true; X=1 ringlet bench sw", "eep"},
		{sourced, `ringlet run --output "a b" --du`, "ration"},
	} {
		dir := completionDir(t)
		if err := os.WriteFile(filepath.Join(dir, ".zshrc"), []byte(c.how+"\nPS1='ready>'\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*patiently.LongTimeout)
		cmd := exec.CommandContext(ctx, "zsh", "-f", "-c", zshSession, "zsh", c.line, c.adds)
		cmd.WaitDelay = time.Second // the inner shell has its standard error, and ends when its terminal is gone
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GORACE="+raceAtOnce, "HOME="+dir, "ZDOTDIR="+dir, "TERM=xterm")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s, %q does not become %q: %v\n%s", c.how, c.line, c.line+c.adds, err, out)
		}
		cancel()
	}
}
