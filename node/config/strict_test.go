package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type shape struct {
	Name string `yaml:"name"`
	Tree *struct {
		Leaves int         `yaml:"leaves"`
		Kind   string      `yaml:"kind" enum:"thin,fat"`
		Map    [][]*string `yaml:"map"`
		Sizes  []Bytes     `yaml:"sizes"`
	} `yaml:"tree"`
	Other *struct{} `yaml:"other"`
}

func TestReadNested(t *testing.T) {
	var got shape
	d, err := Read("t.yaml",
		strings.NewReader("name: x\ntree:\n  leaves: 2\n  kind: fat\n  map:\n    - [a, ~, 3]\n    - []\n  sizes: [1KiB, "+
			"2]\n"), &got)
	if err != nil || d.Err() != nil {
		t.Fatal(err, d.Err())
	}
	a, three := "a", "3"
	if diff := cmp.Diff([][]*string{{&a, nil, &three}, {}}, got.Tree.Map); diff != "" {
		t.Error(diff)
	}
	if got.Other != nil || got.Tree.Leaves != 2 || got.Tree.Kind != "fat" || len(got.Tree.Sizes) != 2 ||
		got.Tree.Sizes[0] != 1024 {
		t.Errorf("read %+v %+v", got, *got.Tree)
	}
	if !d.Contains("tree.map[0][1]") || d.Contains("other") {
		t.Error("does not know what was given")
	}
	d.AddProblem("tree.map[0][2]", "is a number")
	d.AddProblem("tree.spines", "is missing")
	d.AddProblem("other", "is missing")
	want := "3 problems with the configuration:\n  t.yaml:6: tree.map[0][2]: is a number\n  t.yaml:2: tree.spines: is " +
		"missing\n  t.yaml:1: other: is missing"
	if err := d.Err(); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestReadRefusesNested(t *testing.T) {
	for text, want := range map[string]string{
		"tree:\n  leafs: 2\n":              `t.yaml:2: tree.leafs: there is no such setting; the nearest one is "tree.leaves"`,
		"tree:\n":                          "t.yaml:1: tree: has no value",
		"tree: 3\n":                        "t.yaml:1: tree: expected settings",
		"tree:\n  map: 3\n":                "t.yaml:2: tree.map: expected a list",
		"tree:\n  map: [3]\n":              "t.yaml:2: tree.map[0]: expected a list",
		"tree:\n  map: [~]\n":              "t.yaml:2: tree.map[0]: has no value",
		"tree:\n  map:\n  - [a,\n     {}]": "t.yaml:4: tree.map[0][1]: expected a single value",
		"tree:\n  sizes: [1 stone]\n":      "t.yaml:2: tree.sizes[0]: size \"1 stone\" is not",
		"tree:\n  sizes: [~]\n":            "t.yaml:2: tree.sizes[0]: has no value",
		"tree:\n  kind: slim\n":            `t.yaml:2: tree.kind: "slim" is not one of thin, fat`,
		"tree: &a\n  map: *a\n":            "t.yaml:2: tree.map: expected a list",
		"tree: {leaves: 1, leaves: 2}\n":   "t.yaml:1: tree.leaves: is given twice",
	} {
		d, err := Read("t.yaml", strings.NewReader(text), new(shape))
		if err != nil || d.Err() == nil || !strings.Contains(d.Err().Error(), want) {
			t.Errorf("%q: %v, %v, want %s", text, err, d.Err(), want)
		}
	}
}
