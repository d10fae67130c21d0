package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"ringlet/filter/decision"
	"ringlet/lab/trial"
	"ringlet/node/config"
)

// namedMeasurement takes a measurement in so long.
type namedMeasurement func(ctx context.Context, c NodesConfig, d time.Duration) (trial.Figures, error)

// measurementsByName are measurements between nodes of one process that a sweep may name among its references. They are
// those of the documents' own tests, with the settings that the documents' figures ask for.
var measurementsByName = map[string]namedMeasurement{
	"integrity":      measureIntegrity,
	"patterns":       measurePatterns,
	"descriptors":    measureDescriptors,
	"triggers":       measureTriggers,
	"decisions":      measureDecisions,
	"sizes":          measureSizes,
	"interrupt":      interruptMeasurement(0),
	"interrupt busy": interruptMeasurement(320e6), // bytes/s beside it, as in L1-farm
	"latency":        measureLatency,
	"damaged header": damageMeasurement(damageHeader),
	"damaged body":   damageMeasurement(damageBody),
	"write buffers":  measureBuffers,
}

// namedDuration is long enough for thousands of events, and short beside whole runs.
const namedDuration = 5 * time.Second

// lookupBetween is the measurement of a name, and how long it is to take: a time may stand behind the name ("decisions
// 5m").
func lookupBetween(name string) (namedMeasurement, time.Duration) {
	if measure := measurementsByName[name]; measure != nil {
		return measure, namedDuration
	}
	word, text := cutLast(name)
	if d, err := time.ParseDuration(text); err == nil && d >= time.Second && d <= 24*time.Hour {
		return measurementsByName[word], d
	}
	return nil, 0
}

// cutLast splits a text before its last word.
func cutLast(text string) (before, word string) {
	i := strings.LastIndexByte(text, ' ')
	if i < 0 {
		return text, ""
	}
	return text[:i], text[i+1:]
}

// IsBetweenNodes says whether a name is that of a measurement between nodes of one process.
func IsBetweenNodes(name string) bool {
	measure, _ := lookupBetween(name)
	return measure != nil
}

// MeasureBetween takes such a measurement. What is found wrong with words or events is in the figures, and no error.
func MeasureBetween(ctx context.Context, cfg NodesConfig, name string) (trial.Figures, error) {
	measure, d := lookupBetween(name)
	f, err := measure(ctx, cfg, d)
	if err == nil {
		err = ctx.Err()
	}
	return f, err
}

func namesBetween() []string { return slices.Sorted(maps.Keys(measurementsByName)) }

// figuresOf are the numbers of a report, by the names that they have in its JSON.
func figuresOf(report any) trial.Figures {
	text, _ := json.Marshal(report) // of numbers and words: it cannot fail
	return trial.Flatten(text)
}

// measureIntegrity is the test of L1-farm §7.5, figures 7.14 to 7.16.
func measureIntegrity(ctx context.Context, c NodesConfig, d time.Duration) (trial.Figures, error) {
	r, err := MeasureNodes(ctx, &IntegrityConfig{
		NodesConfig: c,
		Size:        384,
		Rate:        48700,
		Buffers:     2,
		Duration:    d,
	})
	if err != nil {
		return nil, err
	}
	f := figuresOf(r)
	if r.Tries > 0 {
		f["mismatched_ppm"] = float64(r.mismatched()) * 1e6 / float64(r.Tries)
		f["missed_ppm"] = float64(r.missedEvents()) * 1e6 / float64(r.Tries)
	}
	if r.Error != "" {
		return nil, fmt.Errorf("bench: integrity: %s", r.Error)
	}
	return f, nil
}

// measurePatterns are those of NIC-crossbar §4.2, each as "one-way 512.mbyte_per_s", and the sums of what was wrong.
func measurePatterns(ctx context.Context, c NodesConfig, d time.Duration) (trial.Figures, error) {
	r, err := MeasureNodes(ctx, &PatternsConfig{
		NodesConfig: c,
		Sizes:       []config.Bytes{24, 512, 4096},
		Duration:    d / 5, // there are fifteen of them
	})
	if err != nil {
		return nil, err
	}
	f, err := faultyRowFigures(r.Rows)
	for i := range r.Rows {
		f["words"] += float64(r.Rows[i].Words)
	}
	return f, err
}

// measureDescriptors is L1-farm's engine with 52 descriptors, triggered again at once by software: frequency against
// size in each of its modes (figures 5.11 and 7.22), each as "endless 512.hz"; "1" is once.
func measureDescriptors(ctx context.Context, c NodesConfig, d time.Duration) (trial.Figures, error) {
	modes, sizes := []string{"1", "16", "endless"}, []config.Bytes{128, 256, 512, 1024}
	return descriptorFigures(ctx, DescriptorsConfig{
		NodesConfig: c,
		Sizes:       sizes,
		PerTrigger:  modes,
		Descriptors: 52,
		Trigger:     bySoftware,
		Duration:    max(minDuration, d/time.Duration(len(modes)*len(sizes))),
	})
}

// measureTriggers is the same once a trigger of 128 B, at the rate of the document's runs (figure 7.19).
func measureTriggers(ctx context.Context, c NodesConfig, d time.Duration) (trial.Figures, error) {
	f, err := descriptorFigures(ctx, DescriptorsConfig{
		NodesConfig: c,
		Sizes:       []config.Bytes{128},
		PerTrigger:  []string{"1"},
		Descriptors: 52,
		Trigger:     byRate,
		Rate:        1.24e6,
		Duration:    d,
	})
	for name, v := range f {
		if name, is := strings.CutPrefix(name, "1 128."); is {
			f[name] = v
		}
	}
	return f, err
}

// descriptorFigures are those of each mode and size, and the sums of what was wrong.
func descriptorFigures(ctx context.Context, c DescriptorsConfig) (trial.Figures, error) {
	r, err := MeasureNodes(ctx, &c)
	if err != nil {
		return nil, err
	}
	return faultyRowFigures(r.Rows)
}

// measureDecisions is the test of the decision unit of L1-farm §7.6: 26 builder units, each event alone, at the rate
// that its 379,901,605 loops in five minutes make.
func measureDecisions(ctx context.Context, c NodesConfig, d time.Duration) (trial.Figures, error) {
	r, err := MeasureNodes(ctx, &DecisionsConfig{
		NodesConfig: c,
		Builders:    26,
		Depth:       decision.DefaultMaxPending,
		Timeout:     decision.DefaultTimeout,
		EventsInRow: 1,
		Rate:        379901605. / 300,
		Duration:    d,
	})
	if err != nil {
		return nil, err
	}
	if r.Error != "" {
		return nil, fmt.Errorf("bench: decisions: %s", r.Error)
	}
	f := figuresOf(r)
	f["by_result_share"] = float64(r.ByResult) / float64(max(1, r.Events))
	f["undecided"] = math.Abs(float64(r.Events) - float64(r.Decided))
	f["odd"] = float64(r.DuplicateResults + r.ImpossibleResults + r.UnsentResults + r.OutOfOrder)
	return f, nil
}

// measureLatency takes the processing times of TagNet-farm; its figures are "1us.trip_us" and so on.
func measureLatency(ctx context.Context, c NodesConfig, d time.Duration) (trial.Figures, error) {
	r, err := MeasureNodes(ctx, &LatencyConfig{
		NodesConfig: c,
		Size:        128,
		Processing:  []time.Duration{time.Microsecond, 2 * time.Microsecond, 5 * time.Microsecond},
		Duration:    d / 3,
	})
	if err != nil {
		return nil, err
	}
	return rowFigures(r.Rows)
}
