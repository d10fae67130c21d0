package hostlimits

import (
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestJudge(t *testing.T) {
	good := Snapshot{
		RmemMax:   8 << 20,
		WmemMax:   8 << 20,
		Interface: "eth0",
		MTU:       9000,
		GSO:       true,
		GRO:       true,
		Governors: []string{"performance"},
		Cores:     8,
		ShmFree:   1 << 30,
		Memlock:   -1,
	}
	wants := Requirements{
		SocketBuffer: 8 << 20,
		Shm:          512 << 20,
		Processes:    2,
		Memlock:      1 << 20,
	}
	for name, tc := range map[string]struct {
		change func(*Snapshot)
		want   []string // limits
		says   string
	}{
		"nothing binds":  {func(*Snapshot) {}, nil, ""},
		"receive buffer": {func(s *Snapshot) { s.RmemMax = 212992 }, []string{"net.core.rmem_max"}, "208.0 KiB"},
		"send buffer": {func(s *Snapshot) { s.WmemMax = 212992 }, []string{"net.core.wmem_max"},
			"net.core.wmem_max=8388608"},
		"buffers not known": {func(s *Snapshot) { s.RmemMax, s.WmemMax = 0, 0 }, nil, ""},
		"small packets":     {func(s *Snapshot) { s.MTU = 1500 }, []string{"MTU"}, "ip link set eth0 mtu 9000"},
		"loopback":          {func(s *Snapshot) { s.Interface, s.MTU = "lo", 65536 }, nil, ""},
		"no GSO":            {func(s *Snapshot) { s.GSO = false }, []string{"UDP GSO"}, "UDP_SEGMENT"},
		"no GRO":            {func(s *Snapshot) { s.GRO = false }, []string{"UDP GRO"}, "UDP_GRO"},
		"a slow governor": {func(s *Snapshot) { s.Governors = []string{"performance", "powersave"} },
			[]string{"CPU governor"}, "powersave"},
		"no governor":         {func(s *Snapshot) { s.Governors = nil }, nil, ""},
		"shared cores":        {func(s *Snapshot) { s.Cores = 1 }, []string{"cores"}, "2 busy processes share 1 cores"},
		"busy with others":    {func(s *Snapshot) { s.Load = 2.5 }, []string{"load"}, "2.5 processes wanted the 8 cores"},
		"a little busy":       {func(s *Snapshot) { s.Load = 1.9 }, nil, ""},
		"a container's 64 MB": {func(s *Snapshot) { s.ShmFree = 64 << 20 }, []string{"/dev/shm"}, "--shm-size"},
		"little to be locked": {func(s *Snapshot) { s.Memlock = 65536 }, []string{"memlock"}, "64.0 KiB"},
		"nothing is to be had": {func(s *Snapshot) { *s = Snapshot{Cores: 1} },
			[]string{"/dev/shm", "UDP GSO", "UDP GRO", "cores", "memlock"}, ""},
		"all that can be better": {func(s *Snapshot) {
			*s = Snapshot{
				RmemMax:   1,
				WmemMax:   1,
				MTU:       1500,
				Governors: []string{"x"},
				Cores:     1,
			}
		}, []string{"/dev/shm", "UDP GSO", "UDP GRO", "cores", "net.core.rmem_max", "net.core.wmem_max", "MTU",
			"CPU governor", "memlock"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := good
			tc.change(&s)
			var limits []string
			var text strings.Builder
			for _, f := range FindLimits(s, wants) {
				limits = append(limits, f.Limit)
				text.WriteString(f.Problem + " " + f.Advice + "\n")
				if f.Problem == "" || f.Advice == "" {
					t.Errorf("%+v says too little", f)
				}
			}
			if !slices.Equal(limits, tc.want) || !strings.Contains(text.String(), tc.says) {
				t.Errorf("%q, want %q, saying %q:\n%s", limits, tc.want, tc.says, &text)
			}
		})
	}
	if f := FindLimits(Snapshot{GSO: true, GRO: true}, Requirements{}); f != nil {
		t.Errorf("nothing is wanted, yet %+v", f)
	}
}

func TestReadFindsThisMachine(t *testing.T) {
	s := ReadSnapshot("127.0.0.1")
	if s.Cores < 1 || s.Interface == "" || s.MTU < 1280 {
		t.Errorf("%+v", s)
	}
	if s := ReadSnapshot("no address"); s.MTU != 0 || s.Cores < 1 {
		t.Errorf("%+v", s)
	}
}
