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

// namedMeasurement takes a measurement that lasts d.
type namedMeasurement func(ctx context.Context, c NodesConfig, d time.Duration) (trial.Figures, error)

// measurementsByName are measurements between nodes of one process that a sweep may name among its references. They
// repeat tests of the documents, with the settings behind the documents' figures.
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

// namedDuration is enough for thousands of events, and short beside whole runs.
const namedDuration = 5 * time.Second

// lookupBetween finds a measurement by its name, and its duration, which may stand behind the name ("decisions 5m").
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

// cutLast splits off the last word of a text.
func cutLast(text string) (before, word string) {
	i := strings.LastIndexByte(text, ' ')
	if i < 0 {
		return text, ""
	}
	return text[:i], text[i+1:]
}

// IsBetweenNodes says whether a name is of a measurement between nodes of one process.
func IsBetweenNodes(name string) bool {
	measure, _ := lookupBetween(name)
	return measure != nil
}

// MeasureBetween takes the named measurement between nodes of this process. Wrong words and wrong events are counted in
// the figures, and are no error.
func MeasureBetween(ctx context.Context, cfg NodesConfig, name string) (trial.Figures, error) {
	measure, d := lookupBetween(name)
	f, err := measure(ctx, cfg, d)
	if err == nil {
		err = ctx.Err()
	}
	return f, err
}

func namesBetween() []string { return slices.Sorted(maps.Keys(measurementsByName)) }

// figuresOf are the numbers of a report, by their names in its JSON.
func figuresOf(report any) trial.Figures {
	text, _ := json.Marshal(report) // numbers and words only: it cannot fail
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

// measurePatterns repeats NIC-crossbar §4.2; figures are "one-way 512.mbyte_per_s" and so on, and the sums of faults.
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
// size in each mode (figures 5.11 and 7.22). Figures are "endless 512.hz" and so on; "1" is one transfer for each
// trigger.
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

// measureTriggers has one transfer of 128 B for each trigger, at the rate of the document's runs (figure 7.19).
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

// descriptorFigures has the figures of each mode and size, and the sums of faults.
func descriptorFigures(ctx context.Context, c DescriptorsConfig) (trial.Figures, error) {
	r, err := MeasureNodes(ctx, &c)
	if err != nil {
		return nil, err
	}
	return faultyRowFigures(r.Rows)
}

// measureDecisions repeats the test of the decision unit in L1-farm §7.6: 26 builder units, each event alone, at a rate
// of 379,901,605 events in five minutes.
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

// measureLatency has the processing times of TagNet-farm; figures are "1us.trip_us" and so on.
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
