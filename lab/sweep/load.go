package sweep

import (
	"bufio"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// others measures from now on how many processors programs other than this one and its children use. It gives a
// function that tells their mean until then; below 0 is not known. Time that the kernel spends in interrupts is
// nobody's.
func others() func() float64 {
	began, all, own := time.Now(), used(), ours()
	return func() float64 {
		took := time.Since(began).Seconds()
		if all < 0 || took <= 0 {
			return -1
		}
		return max(0, (used()-all-(ours()-own))/took)
	}
}

// known is a figure, or nil where it is not known.
func known(v float64) *float64 {
	if v < 0 {
		return nil
	}
	return &v
}

// ticks of the clock in which the kernel counts: USER_HZ, which is 100 on all that Linux runs on today.
const ticks = 100

// used is how long all processors worked for programs since the machine was started, s; below 0 is not known.
func used() float64 {
	f, err := os.Open("/proc/stat")
	if err != nil {
		return -1
	}
	defer f.Close()
	line, err := bufio.NewReader(f).ReadString('\n')
	fields := strings.Fields(line)
	if err != nil || len(fields) < 4 || fields[0] != "cpu" {
		return -1
	}
	sum := 0.0
	for _, text := range fields[1:4] { // user, nice, system
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return -1
		}
		sum += n / ticks
	}
	return sum
}

// ours is the processor time of this process and of its children that have ended, s.
func ours() float64 {
	sum := 0.0
	for _, who := range [...]int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var u unix.Rusage
		if unix.Getrusage(who, &u) == nil {
			sum += time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
		}
	}
	return sum
}
