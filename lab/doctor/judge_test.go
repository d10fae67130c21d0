package doctor

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ringlet/node/config"
	"ringlet/node/hostlimits"
)

// healthy are facts with which every check is ok, and wanted what they are compared with.
func healthy() Facts {
	return Facts{
		Limits: hostlimits.Snapshot{
			RmemMax:   8 << 20,
			WmemMax:   8 << 20,
			GSO:       true,
			GRO:       true,
			Governors: []string{"performance"},
			Cores:     8,
			ShmFree:   8 << 30,
			Memlock:   -1,
		},
		Interfaces:      []Interface{{"lo", 65536, true}, {"eth0", 9000, false}},
		UsableMemory:    32 << 30,
		AvailableMemory: 30 << 30,
		MaxOpenFiles:    4096,
		Clock:           &Clock{true, 1500},
		RemoteClock:     &RemoteClock{URL: "http://c:1/livez", OffsetUS: 3000, UncertaintyUS: 4000},
		Path: &Path{
			Peer:           "n1",
			Address:        "10.0.0.2",
			InterfaceMTU:   9000,
			LargestArrived: 9000,
			Answered:       true,
		},
		Certs: []Certificate{{Name: "control", NotAfter: time.Unix(2e9, 0), RemainingS: 30 * 86400}},
		Ports: []Port{{Name: "7946/tcp"}},
		Directories: []Directory{{Use: useState, Path: "/var/lib/ringlet", Free: 100 << 30,
			Writable: true}},
	}
}

var wanted = Wants{
	Configured:   true,
	LocalNodes:   2,
	SharedMemory: 1 << 30,
	Memory:       2 << 30,
	TotalNodes:   4,
}

func TestJudge(t *testing.T) {
	for _, c := range Judge(healthy(), wanted) {
		if c.Level != OK || c.Remedy != "" || c.Found == "" {
			t.Errorf("of a healthy host: %+v", c)
		}
	}
	for name, tc := range map[string]struct {
		change func(*Facts, *Wants)
		check  string
		level  Level
		says   string
	}{
		"certificate, soon": {
			func(f *Facts, _ *Wants) { f.Certs[0].RemainingS = 2 * 86400 },
			"certificate of control", Warn, "in 2.0 days",
		},
		"certificate, ended": {
			func(f *Facts, _ *Wants) { f.Certs[0].RemainingS = -1 },
			"certificate of control", Fail, "every peer refuses it",
		},
		"certificate, bad": {
			func(f *Facts, _ *Wants) { f.Certs[0].Err = "it is no PEM" },
			"certificate of control", Fail, "no PEM",
		},
		"no certificates": {
			func(f *Facts, _ *Wants) { f.Certs = []Certificate{{Err: "no such directory"}} },
			"certificate", Fail, "no such directory",
		},
		"receive buffer": {func(f *Facts, _ *Wants) { f.Limits.RmemMax = 212992 }, "net.core.rmem_max", Warn,
			"208.0 KiB"},
		"buffer unknown": {func(f *Facts, _ *Wants) { f.Limits.WmemMax = 0 }, "net.core.wmem_max", Skipped, "could not"},
		"no GSO":         {func(f *Facts, _ *Wants) { f.Limits.GSO = false }, "UDP GSO", Warn, "Linux 4.18"},
		"governor": {func(f *Facts, _ *Wants) { f.Limits.Governors = []string{"powersave"} }, "CPU governor", Warn,
			"cpupower"},
		"no governor":        {func(f *Facts, _ *Wants) { f.Limits.Governors = nil }, "CPU governor", Skipped, "virtual"},
		"cores":              {func(f *Facts, _ *Wants) { f.Limits.Cores = 1 }, "cores", Warn, "take turns"},
		"shm":                {func(f *Facts, _ *Wants) { f.Limits.ShmFree = 64 << 20 }, "/dev/shm", Fail, "64.0 MiB"},
		"shm, nothing asked": {func(_ *Facts, w *Wants) { *w = Wants{} }, "/dev/shm", Skipped, "--config"},
		"shm, recorded": {func(_ *Facts, w *Wants) { w.SharedMemory, w.MemoryUnknown = 0, true }, "/dev/shm", Skipped,
			"slot-size"},
		"memory":          {func(f *Facts, _ *Wants) { f.AvailableMemory = 1 << 30 }, "memory", Fail, "would be killed"},
		"memory, a limit": {func(f *Facts, _ *Wants) { f.UsableMemory = 1 << 30 }, "memory", Fail, "1.0 GiB free"},
		"memory, unknown": {func(f *Facts, _ *Wants) { f.AvailableMemory = 0 }, "memory", Skipped, ""},
		"files":           {func(f *Facts, _ *Wants) { f.MaxOpenFiles = 100 }, "open files", Fail, "104"},
		"files, many":     {func(_ *Facts, w *Wants) { w.TotalNodes = 500 }, "open files", Fail, "5064"},
		"plain Ethernet": {func(f *Facts, _ *Wants) { f.Interfaces[1].MTU = 1500 }, "MTU of eth0", OK,
			"quic is faster"},
		"less than Ethernet": {func(f *Facts, _ *Wants) { f.Interfaces[1].MTU = 1400 }, "MTU of eth0", Warn, "1400"},
		"too little":         {func(f *Facts, _ *Wants) { f.Interfaces[1].MTU = 1000 }, "MTU of eth0", Fail, "1280"},
		"no peer":            {func(f *Facts, _ *Wants) { f.Path = nil }, "path", Skipped, "--peer"},
		"peer without name":  {func(f *Facts, _ *Wants) { f.Path.Err = "no address" }, "path to n1", Fail, "no address"},
		"peer silent": {func(f *Facts, _ *Wants) { f.Path.Answered = false }, "path to n1", Skipped,
			"ping -M do -s 8972 n1"},
		"peer behind a wall": {func(f *Facts, _ *Wants) { f.Path.Answered, f.Path.RefusedBy = false, "10.0.0.9" },
			"path to n1",
			Skipped, "10.0.0.9 refuses datagrams to 10.0.0.2 in its place"},
		"peer far away": {func(f *Facts, _ *Wants) { f.Path.Routed = true }, "path to n1", OK,
			"arrive at 10.0.0.2 (or at a router that answers for it)"},
		"path narrower": {func(f *Facts, _ *Wants) { f.Path.LargestArrived, f.Path.NetworkReported = 1500, true },
			"path to n1",
			Warn,
			"the network says so"},
		"path a tunnel": {func(f *Facts, _ *Wants) { f.Path.LargestArrived = 1420 }, "path to n1", Fail, "without a word"},
		"clock unknown": {func(f *Facts, _ *Wants) { f.Clock = nil }, "clock", Skipped, ""},
		"clock free":    {func(f *Facts, _ *Wants) { f.Clock.Synchronised = false }, "clock", Warn, "chronyd"},
		"clock free, phases end by it": {func(f *Facts, w *Wants) {
			f.Clock.Synchronised, w.PhaseTime = false, time.Millisecond
		}, "clock", Fail, "phases of 1ms"},
		"clocks apart": {func(f *Facts, _ *Wants) { f.RemoteClock.OffsetUS = -2e6 }, "clock of http://c:1/livez", Warn,
			"2s behind"},
		"clocks apart a bit": {func(f *Facts, w *Wants) { f.RemoteClock.OffsetUS, w.PhaseTime = 20e3, 50*time.Millisecond },
			"clock of http://c:1/livez", Fail, "20ms ahead of"},
		"clock not asked": {func(f *Facts, _ *Wants) { f.RemoteClock = nil }, "clock of the control", Skipped, "--clock"},
		"clock not there": {func(f *Facts, _ *Wants) { f.RemoteClock.Err = "refused" }, "clock of http://c:1/livez", Skipped,
			"refused"},
		"port taken": {func(f *Facts, _ *Wants) { f.Ports[0].InUse = true }, "port 7946/tcp", Fail, "sport = :7946"},
		"port not to be had": {func(f *Facts, _ *Wants) { f.Ports[0].Err = "permission denied" }, "port 7946/tcp", Fail,
			"permission denied"},
		"no state": {func(f *Facts, _ *Wants) { f.Directories[0] = Directory{Use: useState} }, "state directory", Skipped,
			"--state"},
		"state a file": {func(f *Facts, _ *Wants) { f.Directories[0].Err = "/x is no directory" }, "state directory", Fail,
			"/x"},
		"state not writable": {func(f *Facts, _ *Wants) { f.Directories[0].Writable = false }, "state directory", Fail,
			"right to write"},
		"state full": {func(f *Facts, _ *Wants) { f.Directories[0].Free = 1 << 20 }, "state directory", Fail,
			"1.0 MiB left"},
		"state nearly full": {func(f *Facts, _ *Wants) { f.Directories[0].Free = 500 << 20 }, "state directory", Warn,
			"500.0 MiB left"},
		"state far away": {func(f *Facts, _ *Wants) { f.Directories[0].NetworkFS = true }, "state directory", Warn,
			"network"},
		"output": {func(f *Facts, _ *Wants) { f.Directories[0].Use, f.Directories[0].Free = useOutput, 2<<30 },
			"output directory", Warn, "2.0 GiB left"},
	} {
		t.Run(name, func(t *testing.T) {
			f, w := healthy(), wanted
			tc.change(&f, &w)
			checks := Judge(f, w)
			found := false
			for _, c := range checks {
				if c.Name != tc.check {
					continue
				}
				found = true
				if c.Level != tc.level || !strings.Contains(c.Found+" "+c.Remedy, tc.says) {
					t.Errorf("%+v, want %s with %q", c, tc.level, tc.says)
				}
				if (c.Level == Fail || c.Level == Warn) && c.Remedy == "" {
					t.Errorf("%+v does not say what to do", c)
				}
			}
			if worst := Worst(checks); !found || tc.level == Fail && worst != Fail || tc.level == Skipped && worst == Fail {
				t.Errorf("%s found: %v; the worst is %s", tc.check, found, worst)
			}
		})
	}
}

// Facts recorded on other hosts are judged as they were there.
func TestRecordedFacts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal("no recorded facts", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var r Report
			if err := json.Unmarshal(text, &r); err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			if err := (Report{Checks: Judge(r.Facts, wanted)}).WriteTable(&got); err != nil {
				t.Fatal(err)
			}
			golden := strings.TrimSuffix(file, ".json") + ".txt"
			if *update {
				if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if d := cmp.Diff(string(want), got.String()); d != "" || err != nil {
				t.Errorf("%v -want +got:\n%s", err, d)
			}
		})
	}
}

func TestWantsOf(t *testing.T) {
	for name, tc := range map[string]struct {
		settings []string
		nodes    int
		here     int
		says     func(Wants) bool
	}{
		"all on one host": {[]string{"nodes=3"}, 0, 3,
			func(w Wants) bool { return w.SharedMemory > 0 && w.Memory > w.SharedMemory && w.TotalNodes == 3 }},
		"a cluster":     {[]string{"nodes=3", "members=a,b,c"}, 0, 1, func(w Wants) bool { return w.SharedMemory > 0 }},
		"two of them":   {[]string{"nodes=3", "members=a,b,c"}, 2, 2, func(w Wants) bool { return w.SharedMemory > 0 }},
		"more than all": {[]string{"nodes=3"}, 9, 3, func(w Wants) bool { return w.SharedMemory > 0 }},
		"an input": {[]string{"input=x.mdf"}, 0, 4, func(w Wants) bool {
			return w.MemoryUnknown &&
				w.SharedMemory == 0
		}},
		"an output": {[]string{"output=/data/"}, 1, 1,
			func(w Wants) bool { return slices.Equal(w.Outputs, []string{"/data/"}) }},
		"clocks end phases": {[]string{"phase-end=5ms"}, 1, 1, func(w Wants) bool {
			return w.PhaseTime == 5*time.Millisecond
		}},
	} {
		c, err := config.Compose("", nil, tc.settings)
		if err != nil {
			t.Fatal(name, err)
		}
		if w, err := WantsOf(c, tc.nodes); err != nil || w.LocalNodes != tc.here || !w.Configured || !tc.says(w) {
			t.Errorf("%s: %+v, %v", name, w, err)
		}
	}
}

// The manual's table has every check.
func TestManualListsEveryCheck(t *testing.T) {
	manual, err := os.ReadFile("../../docs/doctor.md")
	if err != nil {
		t.Fatal(err)
	}
	f := healthy()
	f.Directories = append(f.Directories, Directory{Use: useOutput})
	for _, c := range Judge(f, wanted) {
		name := c.Name
		for _, of := range []string{"MTU of", "path to", "clock of", "certificate of", "port"} {
			if strings.HasPrefix(name, of) {
				name = of
			}
		}
		if !strings.Contains(string(manual), "`"+name+"`") {
			t.Errorf("docs/doctor.md does not speak of %q", name)
		}
	}
}
