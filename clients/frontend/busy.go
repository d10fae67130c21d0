package frontend

import "context"

// Causes of a readout unit that is busy: bits of what Busy returns.
const (
	BusyBuilders = 1 << iota // builder units do not take what it has read
	BusyIntake               // the memory of a source is nearly full
	BusyFrontend             // a front-end says that it is busy
)

// Busy returns why the readout unit is busy, 0 if it is free: its buffers are nearly full, or a front-end says that it
// is busy itself. The source of the trigger waits then. It needs a stream whose settings have Follow; while there is no
// connection, it is 0.
func (s *Stream) Busy() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.following.busy
}

// WaitFree waits until the readout unit is free. One goroutine at a time calls it. The error is ctx's, or the stream's.
func (s *Stream) WaitFree(ctx context.Context) error {
	for {
		s.mu.Lock()
		busy, err := s.following.busy, s.err
		s.mu.Unlock()
		if busy == 0 || err != nil {
			return err
		}
		select {
		case <-s.freed:
		case <-s.stopped:
			return errStopped
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// SetBusy says whether this front-end is busy: then its readout unit is, too, and says so to whoever throttles the
// trigger. It needs a stream whose settings have Follow; a Ringlet that does not know it hears nothing. The message
// follows what was sent before, and is sent again after a break. It does not wait. Any goroutine may call it.
func (s *Stream) SetBusy(busy bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.following.says = busy
	s.sayBusy()
}

// sayBusy has a message sent if the readout unit wants to hear it and has not. mu is held.
func (s *Stream) sayBusy() {
	if f := &s.following; f.unitListens && f.says != f.said && !f.sayDue {
		f.sayDue, f.sayBehind = true, max(s.buffer.head, s.buffer.sent)
		signal(s.toSend)
	}
}

// receiveBusy takes what the readout unit says of itself. mu is held.
func (s *Stream) receiveBusy(a answer) {
	s.following.unitListens, s.following.busy = true, a.a
	s.sayBusy()
	signal(s.freed)
}

func busyMessage(busy bool) []byte {
	if busy {
		return messageFrame(0, messageBusy, "")
	}
	return messageFrame(0, messageFree, "")
}
