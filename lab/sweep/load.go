package sweep

import (
	"bufio"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// measureOtherLoad starts to measure how many processors other programs than this one and its children use. It returns
// a function for the mean until its call; nil means not known. Time in interrupts counts for no program.
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

// ticksPerSecond is USER_HZ, the unit of the kernel's times: 100 on every system today.
const ticksPerSecond = 100

// systemCPU is the time that all processors have worked for programs since boot, s; below 0 means not known.
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
