package apitest

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// addSources adds a live source for each node, at the event rate. The last source lacks fragments now and then, and is
// behind by up to 700 events. The caller holds mu.
func (f *Fake) addSources(s *ecsv1.Snapshot, rate float64) {
	built := f.builtTicks * eventsPerTick
	for i := range f.opt.Nodes {
		size := 400 + 100*uint64(i)
		x := &ecsv1.SourceFigures{
			Source:        uint32(i),
			Name:          fmt.Sprintf("tcp:10.0.0.%d:7000", i+1),
			RuIndex:       uint32(i),
			Node:          name(i),
			FragmentsPerS: rate,
			BytesPerS:     rate * float64(size),
			MeanSize:      float64(size),
			Fragments:     built,
			Bytes:         built * size,
			Used:          built,
			LastEvent:     built - min(1, built),
			AgeUs:         300,
			Attached:      1,
		}
		if i > 0 && i == f.opt.Nodes-1 {
			lack := f.builtTicks / 50 * 100
			x.Missing, x.Gaps = lack, f.builtTicks/50
			x.Fragments, x.Used = built-lack, built-lack
			x.MissingPerS, x.AgeUs = 20, 41_000
			x.LastEvent -= min(x.LastEvent, 700)
		}
		s.Sources = append(s.Sources, x)
	}
	at := timestamppb.New(f.now().Add(-time.Second))
	s.SlowValues = []*ecsv1.SlowValue{
		{Name: "hall.temp", Value: fmt.Sprintf("%.1f", 21+float64(f.tick%10)/10), Time: at, Received: at},
		{Name: "note", Value: "beam on target", IsText: true, Time: at, Received: at, User: "alice"},
	}
}
