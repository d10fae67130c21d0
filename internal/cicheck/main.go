package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// report is the fields of the JSON object that cicheck reads. They are pointers, so that a missing field is not a zero.
type report struct {
	AccountingOK    *bool   `json:"accounting_ok"`
	EventsTriggered *uint64 `json:"events_triggered"`
	EventsBuilt     *uint64 `json:"events_built"`
	EventsDiscarded *uint64 `json:"events_discarded"`
	EventsRejected  *uint64 `json:"events_rejected"`
	EventsAbandoned *uint64 `json:"events_abandoned"`
	EndCause        *string `json:"end_cause"`
}

func main() {
	r, err := read(os.Stdin)
	if err != nil {
		fmt.Fprintln(os.Stderr, "cicheck:", err)
		os.Exit(2)
	}
	problems := r.problems()
	for _, p := range problems {
		fmt.Fprintln(os.Stderr, "cicheck:", p)
	}
	if len(problems) > 0 {
		os.Exit(1)
	}
	fmt.Printf("accounts hold: %d events triggered, %d built, end cause %q\n", *r.EventsTriggered, *r.EventsBuilt,
		*r.EndCause)
}

// read decodes exactly one object, which must have every field of report.
func read(in io.Reader) (report, error) {
	var r report
	dec := json.NewDecoder(in)
	if err := dec.Decode(&r); err != nil {
		return r, fmt.Errorf("the input is not the JSON object of ringlet run: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return r, fmt.Errorf("the input goes on after the object")
	}
	for name, missing := range map[string]bool{
		"accounting_ok":    r.AccountingOK == nil,
		"events_triggered": r.EventsTriggered == nil,
		"events_built":     r.EventsBuilt == nil,
		"events_discarded": r.EventsDiscarded == nil,
		"events_rejected":  r.EventsRejected == nil,
		"events_abandoned": r.EventsAbandoned == nil,
		"end_cause":        r.EndCause == nil,
	} {
		if missing {
			return r, fmt.Errorf("the object has no field %s", name)
		}
	}
	return r, nil
}

// problems lists the broken invariants; none: the run is good.
func (r report) problems() []string {
	var out []string
	if !*r.AccountingOK {
		out = append(out, "accounting_ok is false")
	}
	if *r.EventsBuilt == 0 {
		out = append(out, "no event was built")
	}
	if sum := *r.EventsBuilt + *r.EventsDiscarded + *r.EventsRejected + *r.EventsAbandoned; sum != *r.EventsTriggered {
		out = append(out, fmt.Sprintf("%d events were triggered but %d have an outcome", *r.EventsTriggered, sum))
	}
	return out
}
