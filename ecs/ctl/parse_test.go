package ctl

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testVocabulary is a partition with commands of every kind of argument.
func testVocabulary() Vocabulary {
	return Vocabulary{
		FSM: &ecsv1.FSM{
			States: []string{"Offline", "NotReady", "Ready", "Running", "Paused", "Error", "Starting"},
			Commands: []*ecsv1.CommandDescription{
				{Name: "load", Help: "Take a configuration.", Arguments: []*ecsv1.Argument{
					newArgument("configuration", typeYAML, "The configuration."), newArgument("settings", typeSettings,
						"Changes to it."),
				}},
				{Name: "configure"},
				{Name: "start", Arguments: []*ecsv1.Argument{newArgument("remark", "string", "A remark."),
					newArgument("scan", "string", "A scan.")}},
				{Name: "stop", Arguments: []*ecsv1.Argument{newArgument("abandon", typeBool, "Drop what is under way.")}},
				{Name: "exclude", Arguments: []*ecsv1.Argument{markRequired(newArgument("node", typeNode,
					"The node to take out."))}},
			},
		},
		Nodes: []string{"n0", "n1"},
	}
}

// show writes steps as the tables expect them.
func show(steps []step) string {
	var out []string
	for _, s := range steps {
		text := s.Command.GetName()
		if s.PlanOnly {
			text = "plan:" + text
		}
		for _, name := range slices.Sorted(maps.Keys(s.Args)) {
			text += fmt.Sprintf(" %s=%q", name, s.Args[name])
		}
		out = append(out, text)
	}
	return strings.Join(out, "; ")
}

func TestParse(t *testing.T) {
	for line, want := range map[string]string{
		"":                                  "",
		"status":                            "status",
		"configure start wait 30s stop":     `configure; start; wait for="30s"; stop`,
		"wait running 10s":                  `wait for="10s" until="Running"`,
		"wait 10s Running stop":             `wait for="10s" until="Running"; stop`,
		"wait end":                          `wait until="end"`,
		"wait until=end for=1m":             `wait for="1m" until="end"`,
		"load x.yaml packing=100 seed=2":    `load configuration="x.yaml" settings="packing=100\nseed=2"`,
		"load packing=100":                  `load settings="packing=100"`,
		"load - configure":                  `load configuration="-"; configure`,
		"load configuration=configure":      `load configuration="configure"`,
		"load settings=packing=1":           `load settings="packing=1"`,
		"start remark='a night shift' stop": `start remark="a night shift"; stop`,
		"start no-wait stop abandon":        `start no-wait="true"; stop abandon="true"`,
		"stop abandon=false":                `stop abandon="false"`,
		"exclude n1 stop":                   `exclude node="n1"; stop`,
		"exclude node=stop":                 `exclude node="stop"`,
		"plan start remark=x stop":          `plan:start remark="x"; stop`,
		"runs 5 before=9":                   `runs before="9" limit="5"`,
		"help stop":                         `help about="stop"`,
		"help":                              "help",
		"watch events 5s":                   `watch events="true" for="5s"`,
		"scan s.yaml resume rounds=2 out=d": `scan file="s.yaml" out="d" resume="true" rounds="2"`,
		"check - packing=1":                 `check configuration="-" settings="packing=1"`,

		"configur":       `there is no command "configur"; the nearest one is "configure"`,
		"configure fast": `configure: takes no-wait; "fast" is none of these, and no command`,
		"configure starts": `configure: takes no-wait; "starts" is none of these, and no command ` +
			`(the nearest one is "start")`,
		"exclude":                 "exclude: needs node: the node to take out",
		"exclude stop":            "exclude: needs node: the node to take out",
		"exclude n0 n1":           `exclude: takes node, no-wait; "n1" is none of these, and no command`,
		"stop abandon=maybe":      `stop: abandon: "maybe" is not true or false`,
		"wait for=soon":           `wait: for: "soon" is not a time such as 10s or 1m30s`,
		"wait -3s":                `wait: takes for, until; "-3s" is none of these, and no command`,
		"wait Sleeping":           `wait: takes for, until; "Sleeping" is none of these, and no command`,
		"runs limit=-1":           `runs: limit: "-1" is not a whole number that is not negative`,
		"start remark=a remark=b": "start: remark is given twice",
		"plan":                    "plan: needs a command that is to be planned",
		"plan status":             "plan: status does not steer the partition: there is nothing to plan",
		"start 'remark":           "a quotation mark is not closed",
		`start \`:                 "the line ends with a backslash that has nothing to quote: remove the backslash",
	} {
		words, err := SplitWords(line)
		var steps []step
		if err == nil {
			steps, err = testVocabulary().parse(words)
		}
		got := show(steps)
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s\n got %s\nwant %s", line, got, want)
		}
	}
}

func TestWithoutControlOwnCommandsAreKnown(t *testing.T) {
	if _, err := (Vocabulary{}).parse([]string{"status", "runs"}); err != nil {
		t.Error(err)
	}
	if _, err := (Vocabulary{}).parse([]string{"start"}); err == nil {
		t.Error("a command that nobody described is taken")
	}
}

func TestSplit(t *testing.T) {
	for line, want := range map[string][]string{
		"  a  b\t":         {"a", "b"},
		`a\ b 'c d' "e'f"`: {"a b", "c d", "e'f"},
		`x='' "" y`:        {"x=", "", "y"},
		"a # b c":          {"a"},
		"a#b":              {"a#b"},
		`'\n' "\""`:        {`\n`, `"`},
	} {
		got, err := SplitWords(line)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%q: %v\n%s", line, err, diff)
		}
	}
}

func TestQuotedWordsAreSplitAsTheyWere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOf(rapid.String()).Draw(t, "words")
		var quoted []string
		for _, w := range words {
			quoted = append(quoted, quote(w))
		}
		got, err := SplitWords(strings.Join(quoted, " "))
		if err != nil || !slices.Equal(got, words) {
			t.Fatalf("%q, %v", got, err)
		}
	})
}

func TestComplete(t *testing.T) {
	const every = "load configure start stop exclude status sources values steady registers plan wait watch " +
		"logs runs show-run " +
		"take-control release-control check scan sample audit help"
	for line, want := range map[string]string{
		"sta":               "start status",
		"exclude ":          "n0 n1 no-wait " + every,
		"exclude n":         "n0 n1 no-wait",
		"exclude node=":     "node=n0 node=n1",
		"exclude n0 n":      "no-wait",
		"wait Ru":           "Running",
		"wait e":            "end exclude",
		"plan s":            "start stop",
		"load pack":         "packing=",
		"stop aban":         "abandon",
		"help exc":          "exclude",
		"start remark=x re": "registers release-control",
		"start rem":         "remark=",
		"nonsense":          "",
	} {
		words, word := strings.Fields(line), ""
		if n := len(words); !strings.HasSuffix(line, " ") {
			words, word = words[:n-1], words[n-1]
		}
		if got := strings.Join(testVocabulary().Complete(words, word), " "); got != want {
			t.Errorf("%q\n got %s\nwant %s", line, got, want)
		}
	}
}

func TestCompletedLines(t *testing.T) {
	for line, want := range map[string]struct {
		longer  string
		choices int
	}{
		"conf":        {"configure ", 0},
		"st":          {"st", 4},
		"exclude n":   {"exclude n", 3},
		"start rem":   {"start remark=", 0},
		"load packi":  {"load packing=", 0},
		"start 'a b":  {"start 'a b", 0},
		"zzz":         {"zzz", 0},
		"exclude n0":  {"exclude n0 ", 0},
		"wait 10s En": {"wait 10s En", 0},
	} {
		longer, choices := testVocabulary().completeLine(line)
		if longer != want.longer || len(choices) != want.choices {
			t.Errorf("%q: %q %q", line, longer, choices)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"configure start wait 30s stop", "load - a=b", `start remark="x y"`, "plan plan", "exclude \\", "# x",
		"wait end 1s", "help help",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		b := testVocabulary()
		longer, _ := b.completeLine(line)
		if !strings.HasPrefix(longer, line) {
			t.Errorf("%q is completed to %q", line, longer)
		}
		words, err := SplitWords(line)
		if err != nil {
			return
		}
		steps, err := b.parse(words)
		if err != nil {
			return
		}
		// What was understood is understood again when it is written out.
		var again []string
		for _, s := range steps {
			if s.PlanOnly {
				again = append(again, doPlan)
			}
			again = append(again, s.Command.GetName())
			for _, name := range slices.Sorted(maps.Keys(s.Args)) {
				if name == "settings" {
					continue
				}
				again = append(again, name+"="+s.Args[name])
			}
			if text, present := s.Args["settings"]; present {
				for _, one := range strings.Split(text, "\n") {
					again = append(again, "settings="+one)
				}
			}
		}
		if back, err := b.parse(again); err != nil || show(back) != show(steps) {
			t.Errorf("%q\n is %s\nthen %s, %v", line, show(steps), show(back), err)
		}
	})
}
