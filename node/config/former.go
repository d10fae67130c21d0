package config

import (
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A formerSetting is one that there is no more.
type formerSetting struct {
	currentKey string // the setting that has its value now, or ""
	advice     string // a sentence: what to write in its place
}

// formerSettings by key, and, where a setting has lost a word, by key=word.
var formerSettings = map[string]formerSetting{
	"json":              {advice: "it is no setting of a run: give ringlet run or ringlet control the flag --json"},
	"barrier":           {advice: "phase-end takes the name of the barrier: write phase-end: tournament"},
	"phase-end=barrier": {advice: "it takes the name of the barrier: write phase-end: tournament"},
	"phase-end=window":  {advice: "it takes the time itself: write phase-end: 20ms"},
	"phase-window":      {advice: "phase-end takes the time itself: write phase-end: 20ms"},
	"barrier-timeout": {currentKey: "debug.barrier-timeout",
		advice: "it is 5s: leave it out, or give debug.barrier-timeout"},
	"look-ahead": {currentKey: "debug.look-ahead",
		advice: "it follows from slots: leave it out, or give debug.look-ahead"},
	"pull-window": {currentKey: "debug.pull-window",
		advice: "it is 4: leave it out, or give debug.pull-window"},
	"pull-group":                   {advice: "it is half the slots now: leave it out, or give slots"},
	"timeline":                     {advice: "the report always has the last transfers: leave it out"},
	"placing":                      {advice: "every run places its MEPs in the way that suits them: leave it out"},
	"network":                      {advice: "transport takes both carriers: write transport: local+stream"},
	"seal":                         {advice: "every carrier of the network is sealed: leave it out"},
	"transport=express":            {advice: "quic is as fast now, and is what it was: write transport: quic"},
	"transport=express-open":       {advice: "quic, which is sealed, is as fast: write transport: quic"},
	"transport=local+express":      {advice: "quic is as fast now: write transport: auto"},
	"transport=local+express-open": {advice: "quic, which is sealed, is as fast: write transport: auto"},
	"bypass":                       {advice: "discipline says it: write tagring, or tagring-wait where tags wait"},
	"ratio":                        {advice: "next takes the weights: write next: 2,1,1"},
	"next=ratio":                   {advice: "it takes the weights themselves: write next: 2,1,1"},
	"roi-rus":                      {currentKey: "roi", advice: "write roi: 0,2"},
	"roi-accept":                   {advice: "it stands in roi behind a colon: write roi: 0,2:0.3"},
	"debug.seed":                   {advice: "seed decides what is thrown away too: leave it out"},
}

// FormerAdvice says of a flag that there is no more what to give in its place, or "".
func FormerAdvice(flag string) string {
	if name, debug := strings.CutPrefix(flag, "debug-"); debug {
		flag = "debug." + name
	}
	return formerSettings[flag].advice
}

// CurrentKey is the name that a setting of earlier has now: its own, unless it has another.
func CurrentKey(key string) string {
	if now := formerSettings[key].currentKey; now != "" {
		return now
	}
	return key
}

// resolveFormer deals with a setting, or a word of one, that there is no more. In a recorded configuration it is left
// out, or has its new name; elsewhere it is a problem. into is where the key would belong. It returns false for
// anything else.
func (d *Document) resolveFormer(line int, key string, value *yaml.Node, dst reflect.Value) bool {
	if t := dst.Type(); t != reflect.TypeFor[Config]() && t != reflect.TypeFor[Debug]() {
		return false
	}
	was, is := formerSettings[key]
	if word, has := formerSettings[key+"="+value.Value]; has {
		was, is = word, true
	}
	c, isConfig := dst.Addr().Interface().(*Config)
	switch {
	case is && !d.skipFormer:
		d.addProblemAt(line, key, "there is no such setting any more: %s", was.advice)
	case is && isConfig && was.currentKey != "":
		for _, f := range settingFields(c) {
			if f.key == was.currentKey {
				d.decodeValue(value, key, f.value, f.tag)
			}
		}
	}
	return is
}
