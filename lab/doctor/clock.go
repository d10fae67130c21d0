package doctor

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sys/unix"
)

// readClock asks the kernel whether its clock is synchronised.
func readClock() *Clock {
	var t unix.Timex
	state, err := unix.Adjtimex(&t)
	if err != nil {
		return nil
	}
	return &Clock{Synchronised: state != unix.TIME_ERROR && t.Status&unix.STA_UNSYNC == 0, MaxErrorUS: t.Maxerror}
}

// clockReading is one answer of the other host: its clock in whole seconds, and this host's clock before the question
// and after the answer.
type clockReading struct{ remoteTime, requestedAt, answeredAt time.Time }

// clockOffset finds by how much the other clock is ahead. Between the two successive answers its second changed: at
// some moment between the first question and the second answer.
func clockOffset(a, b clockReading) (ahead, uncertain time.Duration, ok bool) {
	if b.remoteTime.Sub(a.remoteTime) != time.Second {
		return 0, 0, false
	}
	span := b.answeredAt.Sub(a.requestedAt)
	return b.remoteTime.Sub(a.requestedAt.Add(span / 2)), span / 2, true
}

const (
	// pollInterval bounds the error of the moment at which the other clock's second changes.
	pollInterval = 5 * time.Millisecond
	// pollDuration is enough to see a second change, and another one if a pause hid the first.
	pollDuration = 2500 * time.Millisecond
)

// readRemoteClock compares the clock of another host with this one's, by the Date of its HTTP answers, in whole
// seconds.
func readRemoteClock(ctx context.Context, url string) *RemoteClock {
	r := &RemoteClock{URL: url}
	ctx, cancel := context.WithTimeout(ctx, pollDuration)
	defer cancel()
	client := &http.Client{
		Transport:     &http.Transport{},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	defer client.CloseIdleConnections()
	last, err := fetchStamp(ctx, client, url)
	for err == nil {
		select {
		case <-time.After(pollInterval):
		case <-ctx.Done():
		}
		var next clockReading
		if next, err = fetchStamp(ctx, client, url); err != nil {
			break
		}
		if ahead, by, ok := clockOffset(last, next); ok {
			r.OffsetUS, r.UncertaintyUS = ahead.Microseconds(), by.Microseconds()
			return r
		}
		last = next
	}
	if errors.Is(err, context.DeadlineExceeded) && !last.remoteTime.IsZero() {
		err = errors.New("the date in its answers never moved on to the next second")
	}
	r.Err = err.Error()
	return r
}

func fetchStamp(ctx context.Context, client *http.Client, url string) (clockReading, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, url, http.NoBody)
	if err != nil {
		return clockReading{}, err
	}
	s := clockReading{requestedAt: time.Now()}
	resp, err := client.Do(req)
	if err != nil {
		return clockReading{}, err
	}
	s.answeredAt = time.Now()
	_ = resp.Body.Close()
	if via := resp.Header.Get("Via") + resp.Header.Get("Age"); via != "" {
		return clockReading{}, errors.New("a proxy answers in its place, as the header Via or Age says")
	}
	if s.remoteTime, err = http.ParseTime(resp.Header.Get("Date")); err != nil {
		return clockReading{}, fmt.Errorf("its answers have no date: %w", err)
	}
	return s, nil
}
