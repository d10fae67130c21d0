package sim

// maxPoints of a series is enough for a curve across a page.
const maxPoints = 1024

// Series is a curve of a value over the whole run. It keeps at most 1024 points: when it is full, it drops every second
// point and samples half as often from then on.
type Series struct {
	Name   string
	Every  Time    // between two points
	Values []int64 // point i is the value at (i+1) × Every, after all events of that instant
	read   func() int64
	due    Time
}

// Watch samples a value from now on, at first at every multiple of every. Samples are no events: they keep no run
// alive.
func (s *Sim) Watch(name string, every Time, read func() int64) *Series {
	w := &Series{
		Name:  name,
		Every: every,
		read:  read,
		due:   (s.now/every + 1) * every,
	}
	for range s.now / every {
		w.append(0)
	}
	s.watchedSeries = append(s.watchedSeries, w)
	s.nextSampleAt = min(s.nextSampleAt, w.due)
	return w
}

func (w *Series) sample(at Time) {
	w.append(w.read())
	w.due = at/w.Every*w.Every + w.Every
}

// append adds a point. A full series keeps the points at even multiples of Every, which are multiples of its double.
func (w *Series) append(v int64) {
	if w.Values = append(w.Values, v); len(w.Values) < maxPoints {
		return
	}
	for i := range maxPoints / 2 {
		w.Values[i] = w.Values[2*i+1]
	}
	w.Values, w.Every = w.Values[:maxPoints/2], 2*w.Every
}
