package conversion_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"ringlet/convert/conversion"
	"ringlet/testkit/interpreted"
)

// The programs in docs/analysis.md do what it says: the first needs pyarrow and matplotlib, the second Python alone,
// the third h5py. The fourth reads recordings without conversion, as the tests of package recording do.
func TestDocumentedPrograms(t *testing.T) {
	python := interpreted.Python(t, "")
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "analysis.md"))
	ok(t, err)
	programs := regexp.MustCompile("(?s)```python\n(.*?)```").FindAllSubmatch(text, -1)
	if len(programs) != 4 {
		t.Fatalf("%d programs in the document", len(programs))
	}
	path, want := meps(t, 5)
	run := func(python []string, program, kind string) string {
		dir := t.TempDir()
		convert(t, filepath.Join(dir, "rows"), func(o *conversion.Options) { o.To = kind }, path)
		c := exec.Command(python[0], append(python[1:], "-c", program)...)
		c.Dir, c.Env = dir, append(os.Environ(), "MPLBACKEND=Agg")
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return string(out)
	}
	total := 0
	for line := range strings.Lines(run(python, string(programs[1][1]), "jsonl")) {
		var size, n int
		if _, err := fmt.Sscan(line, &size, &n); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		total += n
	}
	if total != len(want) {
		t.Errorf("the spectrum has %d fragments, there are %d", total, len(want))
	}
	t.Run("h5py", func(t *testing.T) {
		if out := run(interpreted.H5py(t), string(programs[2][1]), "h5"); strings.Count(out, "[") != sources {
			t.Errorf("of one event it prints\n%s", out)
		}
	})
	if err := exec.Command(python[0], append(python[1:], "-c", "import pyarrow, matplotlib")...).Run(); err != nil {
		t.Skip("SKIPPED: there is no pyarrow and matplotlib here")
	}
	run(python, string(programs[0][1]), "parquet")
}
