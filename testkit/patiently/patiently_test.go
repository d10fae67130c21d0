package patiently

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"
)

// judged notes what a wait says in vain.
type judged struct{ said string }

func (j *judged) Helper()           {}
func (j *judged) Fatal(args ...any) { j.Fatalf("%s", fmt.Sprint(args...)) }
func (j *judged) Fatalf(f string, args ...any) {
	j.said = fmt.Sprintf(f, args...)
	runtime.Goexit()
}

// judge runs a wait with little patience, and gives what it says.
func judge(t *testing.T, wait func(t TB)) string {
	t.Helper()
	long := LongTimeout
	LongTimeout = 20 * time.Millisecond
	j, ended := &judged{}, make(chan struct{})
	go func() {
		defer close(ended)
		wait(j)
	}()
	<-ended // bounded by what is tried
	LongTimeout = long
	return j.said
}

func TestWhatDoesNotComeIsSaid(t *testing.T) {
	never := make(chan int)
	defer close(never)
	for want, wait := range map[string]func(t TB){
		"nothing came":              func(t TB) { Receive(t, never) },
		"no answer":                 func(t TB) { Receive(t, never, "no answer") },
		"was not closed":            func(t TB) { All(t, never)(func(int) bool { return true }) },
		"did not end":               func(t TB) { Wait(t, func() { <-never }) },                           // bounded by close
		"no result":                 func(t TB) { Result(t, func() int { return <-never }, "no result") }, // bounded by close
		"come about: it is raining": func(t TB) { Until(t, "it is raining", func() bool { return false }) },
	} {
		said := judge(t, wait)
		if !strings.Contains(said, want) || !strings.Contains(said, "RINGLET_TEST_PATIENCE=3") ||
			!strings.Contains(said, "goroutine ") {
			t.Errorf("it says %q, want %q", said, want)
		}
	}
}

func TestProcessThatDoesNotEndIsKilled(t *testing.T) {
	c := exec.Command("sleep", "1000")
	if err := c.Start(); err != nil {
		t.Skipf("SKIPPED: there is no sleep: %v", err)
	}
	if said := judge(t, func(t TB) { _ = Exit(t, c) }); !strings.Contains(said, "sleep 1000 did not end, and was killed") {
		t.Errorf("it says %q", said)
	}
}

func TestWhatComesIsGiven(t *testing.T) {
	c := make(chan int, 2)
	c <- 1
	c <- 2
	close(c)
	sum := 0
	for n := range All(t, c) {
		sum += n
	}
	if sum != 3 || Receive(t, c) != 0 || Hold(c) != 0 {
		t.Errorf("the sum is %d", sum)
	}
	why := errors.New("why")
	if err := Result(t, func() error { return why }); !errors.Is(err, why) {
		t.Errorf("the result is %v", err)
	}
	Until(t, "three", func() bool { sum++; return sum > 6 })
	if deadline, ok := Context(t).Deadline(); !ok || time.Until(deadline) > LongTimeout {
		t.Errorf("a context ends at %v", deadline)
	}
}

func TestFactor(t *testing.T) {
	if f := readFactor(""); f != 1 {
		t.Errorf("without it, the factor is %v", f)
	}
	if f := readFactor("2.5"); f != 2.5 {
		t.Errorf("the factor is %v", f)
	}
	for _, text := range []string{"0", "-1", "NaN", "Inf", "3x", "1e9"} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%q is taken", text)
				}
			}()
			readFactor(text)
		}()
	}
}
