package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"ringlet/ecs/ctl"
	"ringlet/node/certs"
	"ringlet/node/config"
)

type completionCmd struct {
	Bash  bashCmd  `cmd:"" help:"For bash: source <(ringlet completion bash)"`
	Zsh   zshCmd   `cmd:"" help:"For zsh, after compinit: source <(ringlet completion zsh), or put it into fpath as _ringlet."`
	Fish  fishCmd  `cmd:"" help:"For fish: ringlet completion fish | source"`
	Words wordsCmd `cmd:"" hidden:"" help:"What the last word could become; the scripts ask this."`
}

type (
	bashCmd struct{}
	zshCmd  struct{}
	fishCmd struct{}
)

// The scripts ask the program for completions, so that they are always up to date. If it has none, the shell completes
// file names. After a completion that ends in = or / the word goes on.
const (
	bashScript = `_ringlet() {
  local IFS=$'\n' line=${COMP_LINE:0:COMP_POINT} word
  COMPREPLY=($("${COMP_WORDS[0]/#\~\//$HOME/}" completion words -- "$line" 2>/dev/null))
  if [ ${#COMPREPLY[@]} -eq 1 ] && [[ ${COMPREPLY[0]} == *= ]]; then compopt -o nospace; fi
  word=${line##* } # bash divides it at =, and wants what follows
  if [[ $word == *=* && $COMP_WORDBREAKS == *=* ]]; then COMPREPLY=("${COMPREPLY[@]#"${word%"${word##*=}"}"}"); fi
}
complete -o default -F _ringlet ringlet
`
	zshScript = `#compdef ringlet
_ringlet() {
  local -a found going
  found=("${(@f)$(${~words[1]} completion words -- "${(j: :)words[1,CURRENT-1]} $IPREFIX$PREFIX" 2>/dev/null)}")
  found=(${found:#})
  if (( ! $#found )); then compset -P '*='; _files; return; fi
  going=(${(M)found:#*=})
  found=(${found:#*=})
  (( $#found )) && compadd -Q -- $found
  (( $#going )) && compadd -Q -S '' -- $going
}
compdef _ringlet ringlet
if [[ $funcstack[1] == _ringlet ]]; then _ringlet; fi # as a file in fpath, read at the first Tab
`
	// In fish a condition makes the proposals: only where it holds are files left out.
	fishScript = `function __ringlet
  set -l words (commandline -cpo)
  set -l program (string replace -r '^~/' "$HOME/" -- $words[1])
  type -q $program; or return 1
  set -g __ringlet_found ($program completion words -- (commandline -cp) 2>/dev/null)
  test (count $__ringlet_found) -gt 0
end
complete -c ringlet -n __ringlet -f -a '$__ringlet_found'
`
)

// Run prints the script.
func (bashCmd) Run(to streams) error { return printText(to.out, bashScript) }

// Run prints the script.
func (zshCmd) Run(to streams) error { return printText(to.out, zshScript) }

// Run prints the script.
func (fishCmd) Run(to streams) error { return printText(to.out, fishScript) }

func printText(w io.Writer, text string) error {
	_, err := io.WriteString(w, text)
	return err
}

type wordsCmd struct {
	Line string `arg:"" help:"The line up to the cursor."`
}

// Run prints the completions of the line's last word, one a line.
func (c *wordsCmd) Run(ctx context.Context, k *kong.Context, to streams) error {
	words, err := ctl.SplitWords(c.Line)
	if len(words) == 0 {
		return err // no completion in quotation marks; the scripts hide the error
	}
	words, word := words[1:], "" // without the program's name
	if n := len(words); n > 0 && !strings.HasSuffix(c.Line, " ") {
		words, word = words[:n-1], words[n-1]
	}
	for _, p := range proposals(k.Model.Node, words, word, func() []string {
		return completeFromControl(ctx, words,
			word)
	}) {
		fmt.Fprintln(to.out, p)
	}
	return nil
}

// proposals are the completions of a word after others: flags, values of a flag, commands, or those of the control.
func proposals(at *kong.Node, words []string, word string, control func() []string) []string {
	var taking *kong.Flag
	free := 0 // words that belong to no flag and are no command
	for _, w := range words {
		switch below := child(at, w); {
		case taking != nil:
			taking = nil
		case strings.HasPrefix(w, "-"):
			taking = flagWithValue(at.AllFlags(true), w)
		case below != nil && free == 0:
			at = below
		default:
			free++
		}
	}
	flags := at.AllFlags(true)
	var out []string
	add := func(p string) {
		if strings.HasPrefix(p, word) {
			out = append(out, p)
		}
	}
	switch name, _, assigned := strings.Cut(word, "="); {
	case taking != nil:
		proposeValues(taking, "", add)
	case assigned && strings.HasPrefix(name, "--"):
		if f := flagWithValue(flags, name); f != nil {
			proposeValues(f, name+"=", add)
		}
	case strings.HasPrefix(word, "-"):
		for _, group := range flags {
			for _, f := range group {
				add("--" + f.Name)
			}
		}
	case at.Name == "ctl":
		out = append(out, control()...)
	default:
		for _, c := range at.Children {
			if !c.Hidden {
				add(c.Name)
			}
		}
	}
	return out
}

func child(at *kong.Node, name string) *kong.Node {
	for _, c := range at.Children {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// flagWithValue is the flag that a word names, if the flag takes a value; else nil.
func flagWithValue(groups [][]*kong.Flag, word string) *kong.Flag {
	for _, group := range groups {
		for _, f := range group {
			if !f.IsBool() && (word == "--"+f.Name || f.Short != 0 && word == "-"+string(f.Short)) {
				return f
			}
		}
	}
	return nil
}

func proposeValues(f *kong.Flag, before string, add func(string)) {
	words := f.EnumSlice()
	if f.Group != nil { // a setting
		words = append(words, config.SettingWords(f.Name)...)
	}
	for _, v := range words {
		if v != "" {
			add(before + v)
		}
	}
}

// completionTimeout is how long a completion waits for the control: longer than a control takes to answer, and shorter
// than users wait after Tab.
const completionTimeout = 500 * time.Millisecond

// completeFromControl completes with the vocabulary of the control that the flags on the line, or the environment,
// name. Without a control it completes the commands of package ctl alone.
func completeFromControl(ctx context.Context, words []string, word string) []string {
	var c cli
	free := []string{}
	book := ctl.Vocabulary{}
	parser, err := newParser(&c, kong.Writers(io.Discard, io.Discard), kong.Exit(func(int) {}))
	if err == nil {
		_, err = parser.Parse(words)
	}
	if err == nil {
		free = c.Ctl.Words
		book = c.Ctl.fetchVocabulary(ctx)
	}
	return book.Complete(free, word)
}

// fetchVocabulary asks the control for its vocabulary; an empty one if the control does not answer.
func (c *ctlCmd) fetchVocabulary(ctx context.Context) ctl.Vocabulary {
	id, err := certs.Load(c.Certs, c.User)
	if err != nil {
		return ctl.Vocabulary{}
	}
	s, err := ctl.Dial(ctl.Config{
		Address:  c.Control,
		Identity: id,
		Out:      io.Discard,
		Err:      io.Discard,
	})
	if err != nil {
		return ctl.Vocabulary{}
	}
	defer func() { _ = s.Close() }()
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	b, _ := s.LoadVocabulary(ctx) // empty with an error
	return b
}
