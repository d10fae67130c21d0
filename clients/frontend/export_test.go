package frontend

import "time"

// Hurry has Close wait no longer than that without a readout unit.
func (s *Stream) Hurry(alone time.Duration) { s.aloneTimeout, s.safeTimeout = alone, alone }
