package bench

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
)

// framed puts a length before a text.
func framed(text string) []byte {
	return append(binary.LittleEndian.AppendUint32(nil, uint32(len(text))), text...)
}

func TestMessages(t *testing.T) {
	var b bytes.Buffer
	if err := writeMessage(&b, request{Open: &openArgs{Carrier: "quic", View: 7}}); err != nil {
		t.Fatal(err)
	}
	var r request
	if err := readMessage(&b, &r); err != nil || r.validate() != nil || r.Open == nil || r.Open.View != 7 || b.Len() != 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestMessagesAreStrict(t *testing.T) {
	for name, tc := range map[string]struct {
		b    []byte
		says string
	}{
		"unknown field":      {framed(`{"opne":{}}`), `unknown field "opne"`},
		"unknown inner one":  {framed(`{"open":{"carrier":"quic","views":1}}`), `unknown field "views"`},
		"no JSON":            {framed(`hello`), "invalid message"},
		"two at once":        {framed(`{"mark":{}}{"mark":{}}`), "more than one"},
		"another type":       {framed(`{"open":{"view":-1}}`), "invalid message"},
		"empty":              {framed(``), "invalid message"},
		"longer than it may": {binary.LittleEndian.AppendUint32(nil, maxMessage+1), "more than 1048576"},
	} {
		t.Run(name, func(t *testing.T) {
			var r request
			err := readMessage(bytes.NewReader(tc.b), &r)
			var message *messageError
			if !errors.As(err, &message) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%v, want a MessageError saying %q", err, tc.says)
			}
		})
	}
	for _, r := range []request{{}, {Mark: &noArgs{}, Check: &noArgs{}}} {
		if r.validate() == nil {
			t.Errorf("%+v asks not one thing", r)
		}
	}
	if err := writeMessage(&bytes.Buffer{}, answer{Sums: make([]byte, maxMessage)}); err == nil {
		t.Error("a message that is too long is written")
	}
}

func FuzzMessage(f *testing.F) {
	f.Add(framed(`{"hello":{"protocol":1,"memory":4096}}`))
	f.Add(framed(`{"grant":{"size":128,"windows":2}}`))
	f.Add([]byte{255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, b []byte) {
		var r request
		if readMessage(bytes.NewReader(b), &r) != nil || r.validate() != nil {
			return
		}
		var again bytes.Buffer
		if err := writeMessage(&again, r); err != nil {
			t.Fatal(err)
		}
		var same request
		if err := readMessage(&again, &same); err != nil || same.validate() != nil {
			t.Fatalf("%+v: %v", r, err)
		}
	})
}

func TestWhatToolsPrint(t *testing.T) {
	for name, tc := range map[string]struct {
		parse func(string) (float64, error)
		text  string
		want  float64 // 0: an error
	}{
		"iperf3": {ofIPerf, `{"end":{"sum_sent":{"bits_per_second":3e9},"sum_received":{"bits_per_second":2.5e9}}}`,
			2.5},
		"iperf3, refused":  {ofIPerf, `{"end":{},"error":"unable to connect to server: Connection refused"}`, 0},
		"iperf3, nothing":  {ofIPerf, ``, 0},
		"shift":            {ofShift, "a warning of OpenMPI\nshift 4 2.000000 250000000 0.250000 4.000000\n", 1},
		"shift, too small": {ofShift, "shift 2 1.0 1000 0\n", 0},
		"shift, cut":       {ofShift, "shift 4 1.0\n", 0},
		"shift, no time":   {ofShift, "shift 4 0 1000 0 0\n", 0},
		"shift, nothing":   {ofShift, "", 0},
		"run":              {ofRun, `{"goodput_gbps":3.5,"accounting_ok":true,"version":"x"}`, 3.5},
		"run, unbalanced":  {ofRun, `{"goodput_gbps":3.5,"accounting_ok":false}`, 0},
		"run, a sentence":  {ofRun, `ringlet: no`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tc.parse(tc.text)
			if (err == nil) != (tc.want > 0) || err == nil && got != tc.want {
				t.Errorf("%v, %v, want %v", got, err, tc.want)
			}
		})
	}
}

// TestProcessorTimeOfTools: both ends of iperf3, and all ranks of the shift.
func TestProcessorTimeOfTools(t *testing.T) {
	r, err := parseIPerf([]byte(`{"end":{"sum_received":{"bytes":4e9,"seconds":2,"bits_per_second":16e9},
		"cpu_utilization_percent":{"host_total":50,"remote_total":25}}}`))
	if err != nil || r["near_cpu_s_per_gb"] != 0.25 || r["far_cpu_s_per_gb"] != 0.125 {
		t.Errorf("%v, %v", r, err)
	}
	if r, err = parseShift("shift 4 2.0 2e9 0.25 3"); err != nil || r["cpu_s_per_gb"] != 1.5 {
		t.Errorf("%v, %v", r, err)
	}
}

func ofIPerf(s string) (float64, error) {
	r, err := parseIPerf([]byte(s))
	return r["goodput_gbps"], err
}
func ofShift(s string) (float64, error) { r, err := parseShift(s); return r["goodput_gbps"], err }
func ofRun(s string) (float64, error) {
	r, err := carrierRuns([]string{"quic"})[0].Measure(context.Background(),
		func(context.Context) ([]byte, error) { return []byte(s), nil })
	return r["goodput_gbps"], err
}
