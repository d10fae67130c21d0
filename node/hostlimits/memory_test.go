package hostlimits

import (
	"slices"
	"testing"
)

func TestGroupLimits(t *testing.T) {
	for cgroups, want := range map[string][]string{
		"":       nil,
		"0::/\n": {"/sys/fs/cgroup/memory.max"},
		"0::/system.slice/ringlet.service\n": {
			"/sys/fs/cgroup/system.slice/ringlet.service/memory.max", "/sys/fs/cgroup/system.slice/memory.max",
			"/sys/fs/cgroup/memory.max",
		},
		"12:cpu,cpuacct:/a\n7:memory:/a\nrubbish\n": {
			"/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.limit_in_bytes",
		},
	} {
		if got := groupLimits(cgroups, "memory", "memory.max", "memory.limit_in_bytes"); !slices.Equal(got, want) {
			t.Errorf("%q: %v, not %v", cgroups, got, want)
		}
	}
}

func TestMemoryIsNoMoreThanTheMachineHas(t *testing.T) {
	if has, may := totalMemory("/proc/meminfo"), MemoryLimit(); has > 0 && (may <= 0 || may > has) {
		t.Errorf("this process may use %d of %d bytes", may, has)
	}
}

func TestTasksAreNoMoreThanTheKernelNumbers(t *testing.T) {
	if most, may := readNumber("/proc/sys/kernel/pid_max"), TaskLimit(); most > 0 && (may <= 0 || may > most) {
		t.Errorf("%d processes may be there, of %d numbers", may, most)
	}
	files := groupLimits("0::/a\n5:pids:/b\n", "pids", "pids.max", "pids.max")
	if want := []string{
		"/sys/fs/cgroup/a/pids.max", "/sys/fs/cgroup/pids.max", "/sys/fs/cgroup/pids/b/pids.max",
		"/sys/fs/cgroup/pids/pids.max",
	}; !slices.Equal(files, want) {
		t.Errorf("limits are looked up in %q", files)
	}
}
