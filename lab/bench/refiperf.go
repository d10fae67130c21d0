package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"strconv"
	"time"

	"ringlet/lab/tool"
	"ringlet/lab/trial"
)

// startIPerf starts an iperf3 server for one test.
func startIPerf(f *far) (*job, error) {
	host := f.cfg.Host
	if err := tool.CheckInstalled("iperf3"); err != nil {
		return nil, err
	}
	port, err := freePort(host)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	t, err := tool.Command{
		Program: "iperf3",
		Args:    []string{"--server", "--one-off", "--bind", host, "--port", strconv.Itoa(port)},
	}.Start(ctx)
	if err != nil {
		stop()
		return nil, err
	}
	return &job{net.JoinHostPort(host, strconv.Itoa(port)), nothingSent, func() error {
		t.Stop()
		stop()
		return nil
	}}, nil
}

// A server that was just started does not listen yet, so the client tries again.
const (
	iperfTries = 40
	iperfPause = 50 * time.Millisecond
)

// runIPerf runs the client for at least the duration; iperf3 takes whole seconds.
func runIPerf(ctx context.Context, n *near, addr string) (trial.Figures, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	seconds := strconv.Itoa(max(1, int(math.Ceil(n.cfg.Duration.Seconds()))))
	client := tool.Command{
		Program: "iperf3",
		Args:    []string{"--client", host, "--port", port, "--time", seconds, "--json"},
	}
	for try := 1; ; try++ {
		out, err := client.Run(ctx)
		if err != nil && len(out) == 0 {
			return nil, err
		}
		res, why := parseIPerf(out) // the JSON has the error
		if why == nil || try == iperfTries || ctx.Err() != nil {
			return res, errors.Join(why, ctx.Err())
		}
		time.Sleep(iperfPause)
	}
}

// parseIPerf reads what iperf3 --json prints.
func parseIPerf(out []byte) (trial.Figures, error) {
	var r struct {
		Error string `json:"error"`
		End   struct {
			Received struct {
				Bytes         float64 `json:"bytes"`
				Seconds       float64 `json:"seconds"`
				BitsPerSecond float64 `json:"bits_per_second"`
			} `json:"sum_received"`
			CPU struct { // % of the time, user and kernel
				Host   float64 `json:"host_total"`
				Remote float64 `json:"remote_total"`
			} `json:"cpu_utilization_percent"`
		} `json:"end"`
	}
	if err := json.Unmarshal(out, &r); err != nil {
		return nil, fmt.Errorf("the output of iperf3 is not JSON: %w", err)
	}
	if r.Error != "" || r.End.Received.BitsPerSecond <= 0 {
		return nil, fmt.Errorf("iperf3 received nothing: %s", r.Error)
	}
	figures := trial.Figures{"goodput_gbps": r.End.Received.BitsPerSecond / 1e9}
	if got, cpu := r.End.Received, r.End.CPU; got.Bytes > 0 && cpu.Host > 0 {
		gb := got.Bytes / 1e9
		figures["near_cpu_s_per_gb"] = cpu.Host / 100 * got.Seconds / gb
		figures["far_cpu_s_per_gb"] = cpu.Remote / 100 * got.Seconds / gb
	}
	return figures, nil
}
