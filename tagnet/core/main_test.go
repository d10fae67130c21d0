package core

// fataler is a test of the package testing or of rapid.
type fataler interface {
	Helper()
	Fatal(args ...any)
}

func must(t fataler, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newAllocator(t fataler, cfg Config) *Allocator {
	t.Helper()
	c, err := NewAllocator(cfg)
	must(t, err)
	return c
}

// built is the feedback for a token whose MEP is whole.
func (t Token) built(events uint32) Feedback {
	return Feedback{
		MEP:     t.MEP,
		Slot:    t.Slot,
		Attempt: t.Attempt,
		Events:  events,
		Outcome: Built,
	}
}
