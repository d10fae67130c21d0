package testbed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Actions on a port.
const (
	actCut     = "cut"
	actSlow    = "slow"
	actRestore = "restore"
)

// A Disturbance is an action on a port. Its text form is 2s:cut:n3, 1s:slow:n2:50Mbit or 3s:restore:n3.
type Disturbance struct {
	At     time.Duration // after the beginning of the run
	Action string        // actCut, actSlow or actRestore
	Host   string
	Rate   Rate // with actSlow
}

// String writes the text form.
func (d Disturbance) String() string {
	text := fmt.Sprintf("%v:%s:%s", d.At, d.Action, d.Host)
	if d.Action == actSlow {
		text += ":" + d.Rate.String()
	}
	return text
}

// MarshalText writes the text form.
func (d Disturbance) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads the text form.
func (d *Disturbance) UnmarshalText(text []byte) error {
	at, rest, _ := strings.Cut(string(text), ":")
	t, err := time.ParseDuration(at)
	if err != nil || t < 0 {
		return fmt.Errorf("%q does not begin with a time such as 2s: write TIME:cut:HOST, TIME:restore:HOST or "+
			"TIME:slow:HOST:RATE", text)
	}
	fields := strings.Split(rest, ":")
	rate := ""
	if len(fields) == 3 {
		rate = fields[2]
	}
	if len(fields) < 2 || len(fields) > 3 {
		return fmt.Errorf("%q is not TIME:cut:HOST, TIME:restore:HOST or TIME:slow:HOST:RATE", text)
	}
	*d, err = NewDisturbance(t, fields[0], fields[1], rate)
	return err
}

// NewDisturbance parses rate and checks the action.
func NewDisturbance(at time.Duration, what, host, rate string) (Disturbance, error) {
	d := Disturbance{At: at, Action: what, Host: host}
	switch {
	case what != actCut && what != actSlow && what != actRestore:
		return d, fmt.Errorf("%q is no action on a port: give %s, %s or %s", what, actCut, actSlow, actRestore)
	case what == actSlow && rate == "":
		return d, fmt.Errorf("%s: slow needs the rate of the port, such as 50Mbit", host)
	case what != actSlow && rate != "":
		return d, fmt.Errorf("%s: %s has no rate: leave it out", host, what)
	case what == actSlow:
		var err error
		d.Rate, err = parseRate(rate)
		return d, err
	}
	return d, nil
}

// Check says why the bed cannot carry out the disturbance, or returns nil.
func (s *Spec) Check(d Disturbance) error {
	if i, ok := hostIndex(d.Host); !ok || i >= s.Hosts {
		return &hostError{d.Host, s.Hosts}
	}
	if d.Action == actSlow && (d.Rate < minRate || d.Rate > maxRate) {
		return fmt.Errorf("%s: the rate %v is not between %v and %v", d.Host, d.Rate, Rate(minRate), Rate(maxRate))
	}
	return nil
}

// Disturb carries out the disturbance now.
//
// cut pulls the cable: the host's interface and the switch's port lose their carrier. Packets in them, and packets sent
// into them meanwhile, are lost without being counted. restore makes the port as in the Spec, whatever was done to it,
// but for its bucket, which never shrinks.
func (b *Bed) Disturb(d Disturbance) error {
	if err := b.spec.Check(d); err != nil {
		return err
	}
	host, _ := hostIndex(d.Host)
	switch d.Action {
	case actCut:
		return b.SetCable(d.Host, false)
	case actSlow:
		return b.setLimit(host, d.Rate, tcChange)
	default:
		return errors.Join(b.setLimit(host, b.spec.rate(host), tcChange), b.SetCable(d.Host, true))
	}
}

// SetCable pulls the cable of a host, or of the host of the control, or plugs it in. It needs no filter.
func (b *Bed) SetCable(host string, plugged bool) error {
	state := "down"
	if plugged {
		state = "up"
	}
	return b.ip(b.switchNS, fmt.Sprintf("link set dev %s %s", host, state))
}

// DisturbanceResult is the outcome of a disturbance.
type DisturbanceResult struct {
	Disturbance Disturbance `json:"disturbance"`
	AtS         float64     `json:"at_s"` // when it was carried out; 0 if the run was over before
	TookEffect  bool        `json:"done"`
	Error       string      `json:"error,omitempty"` // why it did not
}

// disturbAll carries out the disturbances when they are due until ctx ends, and returns their outcomes.
func (b *Bed) disturbAll(ctx context.Context, began time.Time, all []Disturbance,
	report func(string)) []DisturbanceResult {
	all = slices.SortedStableFunc(slices.Values(all), func(a, b Disturbance) int { return cmp.Compare(a.At, b.At) })
	out := make([]DisturbanceResult, len(all))
	for i, d := range all {
		out[i].Disturbance = d
		select {
		case <-ctx.Done():
		case <-time.After(time.Until(began.Add(d.At))):
		}
		if ctx.Err() != nil {
			continue
		}
		err := b.Disturb(d)
		out[i].AtS, out[i].TookEffect = time.Since(began).Seconds(), err == nil
		if err != nil {
			out[i].Error = err.Error()
		}
		report(fmt.Sprintf("%.3f s: %s %s", out[i].AtS, d.Action, d.Host))
	}
	return out
}
