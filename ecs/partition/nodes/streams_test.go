package nodes

import (
	"slices"
	"testing"

	"ringlet/node/config"
	"ringlet/recording"
)

// inStreams is a run of 1000 events, of which a file has 600 and the readers of a buffer 400.
func inStreams(t *testing.T, by string) (*config.Completed, *Report, *readBackOutput) {
	t.Helper()
	c := config.Completed{Config: config.Default()}
	c.Output, c.OutputBy, c.Packing, c.RunNumber = "mdf:/data/out/,buffer:b", by, 100, 7
	if err := c.Complete(); err != nil {
		t.Fatal(err)
	}
	r := &Report{EventsTriggered: 1000, EventsBuilt: 1000}
	r.fillDeliveredStreams(&c, map[string]uint64{
		"bu.output_stream_meps.0":   6,
		"bu.output_stream_events.0": 600,
		"bu.output_stream_bytes.0":  6000,
		"bu.output_stream_meps.1":   4,
		"bu.output_stream_events.1": 400,
	})
	set := recording.NewMEPSet(100)
	for mep := range uint64(6) {
		set.Add(recording.Entry{MEP: mep, FirstEvent: mep * 100, Events: 100, Attempt: 1})
	}
	one := &readBackOutput{cfg: c.FileOutputs()[0], mepSet: set, copies: 1}
	sum := &readBackOutput{mepSet: recording.NewMEPSet(100)}
	sum.addOutput(one)
	return &c, r, sum
}

func TestStreamsBalance(t *testing.T) {
	c, r, rec := inStreams(t, "turns")
	r.fillOutput(c, rec)
	if r.OutputEvents != 1000 || r.RecordedOutput.Events != 600 || len(r.RecordedOutput.MissingEvents) > 0 ||
		r.RecordedOutput.Copies != 1 {
		t.Errorf("%d events, %+v", r.OutputEvents, r.RecordedOutput)
	}
	if s := r.OutputStreams[0]; s.Directory != "/data/out/run-000007" || s.FoundEvents != 600 || s.DeliveredBytes != 6000 {
		t.Errorf("%+v", s)
	}
	for range 2 { // again, as a run that is completed later is
		r.closeAccounts()
		if len(r.Accounts) != 2 || !r.AccountingOK {
			t.Errorf("%v", r.Accounts)
		}
	}
	v := r.verdictFor(&runDirectory{mepSet: rec.mepSet})
	if v.EventsInDirectory != 600 || v.EventsOutput != 1000 {
		t.Errorf("%+v", v)
	}
	for name, off := range map[string]func(*Report){
		exactCheckName: func(r *Report) { r.OutputEvents-- },
		"events given to output stream 0 = found in its files": func(r *Report) { r.OutputStreams[0].FoundEvents-- },
	} {
		_, r, rec := inStreams(t, "turns")
		r.fillOutput(c, rec)
		off(r)
		if bad := failing(outputChecks(r, true)); !slices.Equal(bad, []string{name}) {
			t.Errorf("%q is found by %v", name, bad)
		}
	}
}

// TestStreamsLeftOut holds that what cannot be known is not claimed: units that were lost may have handed out more.
func TestStreamsLeftOut(t *testing.T) {
	c, r, rec := inStreams(t, "turns")
	r.Degraded = true
	r.fillOutput(c, rec)
	r.closeAccounts()
	r.closeAccounts()
	if len(r.Accounts) != 0 || !slices.Equal(r.NotChecked, []string{handedOutNote}) || !r.AccountingOK {
		t.Errorf("%v, %q", r.Accounts, r.NotChecked)
	}
}

// TestStreamsToAll holds that a run whose streams all get every MEP counts each event once, and checks each stream.
func TestStreamsToAll(t *testing.T) {
	c, r, rec := inStreams(t, "all")
	r.EventsTriggered, r.EventsBuilt = 600, 600
	r.fillOutput(c, rec)
	r.closeAccounts()
	if r.OutputEvents != 600 || r.AccountingOK {
		t.Errorf("%d events, and the buffer was given 400: %v", r.OutputEvents, r.Accounts)
	}
	r.OutputStreams[1].DeliveredEvents = 600
	if r.closeAccounts(); !r.AccountingOK || len(r.Accounts) != 4 {
		t.Errorf("%v", r.Accounts)
	}
	if r.RecordedOutput.MissingEvents == nil {
		t.Error("ranges are null in JSON")
	}
}
