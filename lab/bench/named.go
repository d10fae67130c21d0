package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"ringlet/lab/trial"
	"ringlet/node/config"
)

// measureNamed takes a measurement in so long.
type measureNamed func(ctx context.Context, c NodesConfig, d time.Duration) (trial.Figures, error)

// named are measurements between nodes of one process that a sweep may name among its references. They are those of the
// documents' own tests, with the settings that the documents' figures ask for.
var named = map[string]measureNamed{
	"integrity":      namedIntegrity,
	"patterns":       namedPatterns,
	"descriptors":    namedDescriptors(bySoftware),
	"triggers":       namedDescriptors(byRate),
	"interrupt":      namedInterrupt(0),
	"interrupt busy": namedInterrupt(320e6), // bytes/s beside it, as in document 000
	"latency":        namedLatency,
	"damaged header": namedDamage(damageHeader),
	"damaged body":   namedDamage(damageBody),
}

// namedTime is long enough for thousands of events, and short beside whole runs.
const namedTime = 5 * time.Second

// Between says whether a name is that of a measurement between nodes of one process.
func Between(name string) bool { return named[name] != nil }

// MeasureBetween takes such a measurement. What is found wrong with words or events is in the figures, and no error.
func MeasureBetween(ctx context.Context, cfg NodesConfig, name string) (trial.Figures, error) {
	f, err := named[name](ctx, cfg, namedTime)
	if err == nil {
		err = ctx.Err()
	}
	return f, err
}

func namesBetween() []string { return slices.Sorted(maps.Keys(named)) }

// figuresOf are the numbers of a report, by the names that they have in its JSON.
func figuresOf(report any) trial.Figures {
	text, _ := json.Marshal(report) // of numbers and words: it cannot fail
	return trial.Flatten(text)
}

// namedIntegrity is document 000's test of figures 7.14 to 7.16.
func namedIntegrity(ctx context.Context, c NodesConfig, d time.Duration) (trial.Figures, error) {
	r, err := Integrity(ctx, IntegrityConfig{
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
		f["missed_ppm"] = float64(r.missed()) * 1e6 / float64(r.Tries)
	}
	if r.Error != "" {
		return nil, fmt.Errorf("bench: integrity: %s", r.Error)
	}
	return f, nil
}

// namedPatterns are those of document 004 §4.2, each as "one-way 512.mbyte_per_s", and the sums of what was wrong.
func namedPatterns(ctx context.Context, c NodesConfig, d time.Duration) (trial.Figures, error) {
	r, err := Patterns(ctx, PatternsConfig{
		NodesConfig: c,
		Sizes:       []config.Bytes{24, 512, 4096},
		Duration:    d / 5, // there are fifteen of them
	})
	if err != nil {
		return nil, err
	}
	f := trial.Figures{}
	for i := range r.Rows {
		row := &r.Rows[i]
		for name, v := range figuresOf(row) {
			f[fmt.Sprintf("%s %d.%s", row.Pattern, row.Size, name)] = v
		}
		f["words"] += float64(row.Words)
		f["wrong"] += float64(row.Wrong + row.Misplaced)
		f["lost"] += float64(row.Lost)
		if row.Error != "" {
			return nil, fmt.Errorf("bench: %s of %d B: %s", row.Pattern, row.Size, row.Error)
		}
	}
	return f, nil
}

// namedDescriptors is document 000's engine with 52 descriptors of 128 B, once a trigger: triggered again at once
// (figure 7.22), or at the rate of its runs (figure 7.19).
func namedDescriptors(by string) measureNamed {
	return func(ctx context.Context, c NodesConfig, d time.Duration) (trial.Figures, error) {
		r, err := Descriptors(ctx, DescriptorsConfig{
			NodesConfig: c,
			Sizes:       []config.Bytes{128},
			PerTrigger:  []string{"1"},
			Descriptors: 52,
			Trigger:     by,
			Rate:        1.24e6,
			Duration:    d,
		})
		if err != nil {
			return nil, err
		}
		if len(r.Rows) == 0 {
			return nil, ctx.Err()
		}
		if why := r.Rows[0].Error; why != "" {
			return nil, fmt.Errorf("bench: descriptors: %s", why)
		}
		return figuresOf(&r.Rows[0]), nil
	}
}
