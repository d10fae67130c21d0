package partition_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ringlet/event"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// inputs puts into the directory of inputs what might be taken for one, and returns a file outside.
func inputs(t *testing.T, dir string) (outside string) {
	t.Helper()
	bank, err := event.AppendBank(nil, 16, 0, 5, []byte("recorded"))
	if err != nil {
		t.Fatal(err)
	}
	record, err := event.AppendRecord(nil, event.MDFHeader{DataType: event.MDFTypeBanks}, bank)
	if err != nil {
		t.Fatal(err)
	}
	outside = filepath.Join(t.TempDir(), "outside.mdf")
	err = errors.Join(
		os.WriteFile(filepath.Join(dir, "good.mdf"), bytes.Repeat(record, 1000), 0o600),
		os.WriteFile(outside, bytes.Repeat(record, 1000), 0o600),
		unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600),
		os.Symlink(outside, filepath.Join(dir, "leak.mdf")),
	)
	if err != nil {
		t.Fatal(err)
	}
	return outside
}

// TestInputsAreReadWhereTheyMay checks and loads what a user may name as an input. Where a control opens a named pipe
// as it opens files, this test does not end.
func TestInputsAreReadWhereTheyMay(t *testing.T) {
	t.Parallel()
	h := newFarm(t, 2, nil)
	outside := inputs(t, h.inputs)
	for name, want := range map[string]string{
		filepath.Join(h.inputs, "pipe"):                           "is a named pipe, not a regular file",
		filepath.Join(h.inputs, "none.mdf"):                       "no such file",
		filepath.Join(h.inputs, "leak.mdf"):                       "a symbolic link leads out of " + h.inputs,
		filepath.Join(h.inputs, "..", filepath.Base(outside)):     "is not below a directory of inputs",
		"../" + filepath.Base(filepath.Dir(outside)) + "/outside": "is not below a directory of inputs",
		outside:     "is not below a directory of inputs",
		"/dev/zero": "is not below a directory of inputs",
		h.inputs:    "is a directory, not a regular file",
	} {
		r := h.Check(t.Context(), &ecsv1.CheckConfigurationRequest{Settings: []string{"input=" + name}})
		if r.GetOk() || len(r.GetProblems()) != 1 || !strings.Contains(r.GetProblems()[0], want) {
			t.Errorf("%s is checked: %v %q, and not that it %s", name, r.GetOk(), r.GetProblems(), want)
		}
		if err := h.command("load", "settings", "input="+name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is loaded: %v, and not that it %s", name, err, want)
		}
		// Whoever may look may ask for a plan: it reads nothing, and tells nothing of what is there.
		plan := h.Plan(t.Context(), &ecsv1.CommandRequest{Command: "load",
			Arguments: map[string]string{"settings": "input=" + name}})
		if !plan.GetPossible() || !strings.Contains(plan.GetSteps()[0].GetWhat(), "reads the input "+name) {
			t.Errorf("%s is planned: %v", name, plan)
		}
	}
	for _, name := range []string{"good.mdf", filepath.Join(h.inputs, "good.mdf")} {
		if r := h.Check(t.Context(), &ecsv1.CheckConfigurationRequest{Settings: []string{"input=" + name}}); !r.GetOk() {
			t.Errorf("%s is refused: %q", name, r.GetProblems())
		}
	}
	if err := h.command("load", "settings", "input=good.mdf\nnodes=2"); err != nil {
		t.Fatal(err)
	}
	if got, want := h.Status().GetConfiguration(), "input: "+filepath.Join(h.inputs, "good.mdf"); !strings.Contains(got,
		want) {
		t.Errorf("the configuration in effect does not have %q:\n%s", want, got)
	}
	// Nobody waits for the reading of an input that nobody wants to know of any more.
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("who asked has left"))
	r := h.Check(ctx, &ecsv1.CheckConfigurationRequest{Settings: []string{"input=good.mdf"}})
	if r.GetOk() || !strings.Contains(strings.Join(r.GetProblems(), " "), "who asked has left") {
		t.Errorf("%v %q", r.GetOk(), r.GetProblems())
	}
}
