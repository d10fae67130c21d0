package conversion_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"ringlet/convert/conversion"
	"ringlet/recording"
	"ringlet/testkit/patiently"
)

// A test binary with these in its environment is a conversion of its own.
const (
	childOf   = "CONVERT_TEST_INPUT"
	childTo   = "CONVERT_TEST_OUTPUT"
	childKind = "CONVERT_TEST_KIND"
	childPart = "CONVERT_TEST_PART"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(childOf); path != "" {
		if err := child(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// child converts. After each part it says so, and waits to be told to go on. At the end it says how much memory it had.
func child(path string) error {
	part, err := strconv.ParseInt(os.Getenv(childPart), 10, 64)
	if err != nil {
		return err
	}
	in := bufio.NewReader(os.Stdin)
	_, err = conversion.Run(context.Background(), conversion.Options{
		Inputs:    filepath.SplitList(path),
		Once:      strings.Contains(path, string(filepath.ListSeparator)),
		Output:    os.Getenv(childTo),
		To:        os.Getenv(childKind),
		MaxUnit:   64 << 20,
		PartBytes: part,
		Part: func(r conversion.Result) error {
			fmt.Println("part", r.Read)
			_, err := in.ReadString('\n')
			return err
		},
	})
	if err != nil {
		return err
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	fmt.Println("done", strings.Fields(after)[0])
	return nil
}

// start begins a conversion in a process of its own.
func start(t testing.TB, path, output, kind string, part int64) (c *exec.Cmd, in io.WriteCloser, out *bufio.Reader) {
	t.Helper()
	c = exec.Command(os.Args[0])
	c.Env = append(os.Environ(), childOf+"="+path, childTo+"="+output, childKind+"="+kind, childPart+"="+fmt.Sprint(part))
	c.Stderr = os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := c.StdinPipe()
	ok(t, err)
	stdout, err := c.StdoutPipe()
	ok(t, err)
	ok(t, c.Start())
	return c, in, bufio.NewReader(stdout)
}

// A conversion that is killed behind each of its parts, or somewhere in the part behind that, makes what one that is
// not killed makes.
func TestKilledConversionGoesOn(t *testing.T) {
	dir, want := recorded(t, recording.FormatMEP, 40)
	path, wantFile := meps(t, 40)
	two, wantTwo := overlapping(t, recording.FormatMEP)
	for _, kind := range []string{"parquet", "root", "jsonl", "h5", "npz"} {
		cases := map[string][]row{dir: want, path: wantFile}
		if kind == "parquet" {
			cases[strings.Join(two, ":")] = wantTwo
		}
		for from, want := range cases {
			out := filepath.Join(t.TempDir(), "rows")
			kills := killEachPart(t, from, out, kind)
			if kills < 3 {
				t.Errorf("%s: it was killed %d times", kind, kills)
			}
			same(t, back(t, out), want)
			if _, err := os.Stat(out + conversion.PartialSuffix); err == nil {
				t.Error("what was not whole is left")
			}
		}
	}
}

// killEachPart starts conversions, and kills each when it has made one part more and does not know it yet.
func killEachPart(t *testing.T, path, out, kind string) (kills int) {
	t.Helper()
	for read := 0; ; kills++ {
		c, in, said := start(t, path, out, kind, 400_000)
		line, err := said.ReadString('\n')
		ok(t, err)
		var now int
		if _, err := fmt.Sscanf(line, "part %d\n", &now); err != nil {
			ok(t, patiently.Exit(t, c))
			return kills
		}
		if now <= read {
			t.Fatalf("it has read %d bytes, the one before %d: it began anew", now, read)
		}
		read = now
		// What it had not finished: a part without an end.
		partial := filepath.Join(out+conversion.PartialSuffix, "00099."+kind)
		ok(t, os.WriteFile(partial, []byte("half"), 0o666))
		if kills%2 == 1 { // somewhere in the next part
			_, _ = io.WriteString(in, "\n") // it may have ended
		}
		ok(t, c.Process.Kill())
		_ = patiently.Exit(t, c) // it was killed
	}
}

// What is left of another conversion is not gone on with, and not thrown away, unless by force.
func TestConversionOfOtherInputDoesNotGoOn(t *testing.T) {
	path, want := meps(t, 20)
	out := filepath.Join(t.TempDir(), "rows")
	c, _, said := start(t, path, out, "parquet", 100_000)
	_, err := said.ReadString('\n')
	ok(t, err)
	if _, err := run(out, nil, path); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("two at a time: got %v", err)
	}
	ok(t, c.Process.Kill())
	_ = patiently.Exit(t, c) // it was killed
	for name, change := range map[string]func(*conversion.Options){
		"another kind":  func(o *conversion.Options) { o.To = "jsonl" },
		"banks":         func(o *conversion.Options) { o.Banks = true },
		"once":          func(o *conversion.Options) { o.Once = true },
		"another run":   func(o *conversion.Options) { o.Run = 5 },
		"another input": func(o *conversion.Options) { o.Inputs = append(o.Inputs, path) },
	} {
		if _, err := run(out, change, path); err == nil || !strings.Contains(err.Error(), "--force") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	r := convert(t, out, func(o *conversion.Options) { o.Force = true }, path)
	same(t, back(t, out), want)
	if r.Resumed != 0 {
		t.Errorf("by force it went on behind %d bytes", r.Resumed)
	}
}

// 100 MB of input are converted in far less memory: a row group and a unit, not the file.
func TestMemoryIsBounded(t *testing.T) {
	path := generated(t, recording.FormatMEP, 250_000, 133)
	st, err := os.Stat(path)
	ok(t, err)
	if st.Size() < 100_000_000 {
		t.Fatalf("the input has %d bytes", st.Size())
	}
	const most = 256 << 10 // KiB, of which the test binary is 40,000
	for _, kind := range []string{"parquet", "root", "jsonl", "h5", "npz"} {
		out := filepath.Join(t.TempDir(), "x."+kind)
		c, _, said := start(t, path, out, kind, 1<<40)
		var kib int
		_, err := fmt.Fscanf(said, "done %d\n", &kib)
		ok(t, err)
		ok(t, patiently.Exit(t, c))
		t.Logf("%s: %d KiB", kind, kib)
		if kib > most {
			t.Errorf("%s took %d KiB, %d are the most", kind, kib, most)
		}
		ok(t, os.Remove(out))
	}
}
