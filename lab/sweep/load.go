package sweep

import (
	"bufio"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// measureOtherLoad measures from now on how many processors programs other than this one and its children use. It gives
// a function that tells their mean until then; nil is not known. Time that the kernel spends in interrupts is nobody's.
func measureOtherLoad() func() *float64 {
	began, all, processStart := time.Now(), systemCPU(), processCPU()
	return func() *float64 {
		took := time.Since(began).Seconds()
		if all < 0 || took <= 0 {
			return nil
		}
		others := max(0, (systemCPU()-all-(processCPU()-processStart))/took)
		return &others
	}
}

// ticksPerSecond of the clock in which the kernel counts: USER_HZ, which is 100 on all that Linux runs on today.
const ticksPerSecond = 100

// systemCPU is how long all processors worked for programs since the machine was started, s; below 0 is not known.
func systemCPU() float64 {
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
		sum += n / ticksPerSecond
	}
	return sum
}

// processCPU is the processor time of this process and of its children that have ended, s.
func processCPU() float64 {
	sum := 0.0
	for _, who := range [...]int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var u unix.Rusage
		if unix.Getrusage(who, &u) == nil {
			sum += time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
		}
	}
	return sum
}
