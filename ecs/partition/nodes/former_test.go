package nodes

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// A report of a record from before 2026-11-28 has events_incomplete, and accounts with that word. It is read, and its
// accounts are closed again by their new names when the record is completed.
func TestReportWithIncompleteEventsIsRead(t *testing.T) {
	text, err := os.ReadFile("testdata/report-65193f23.json")
	if err != nil {
		t.Fatal(err)
	}
	var r Report
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	if r.EventsTriggered != 2000 || r.EventsBuilt != 2000 || !r.AccountingOK || r.VerdictWord() != "GOOD" ||
		!strings.Contains(r.Accounts[0].Name, " incomplete ") {
		t.Errorf("%+v", r)
	}
	before := len(r.Accounts)
	r.EventsBuilt--
	r.closeAccounts()
	want := Check{Name: "events triggered = built + discarded + rejected + abandoned", Left: 2000, Right: 1999}
	if len(r.Accounts) != before || r.Accounts[0] != want || r.VerdictWord() != "INCOMPLETE" {
		t.Errorf("closed again: %s, %+v", r.VerdictWord(), r.Accounts)
	}
}
