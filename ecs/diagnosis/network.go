package diagnosis

import (
	"fmt"
	"time"

	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// networkRules are the rules about links.
func networkRules() []Rule {
	return []Rule{
		{
			ID:       "sent-again",
			Severity: warning,
			Hold:     2 * time.Second,
			find:     sentAgain,
			When:     "More than 1 % of the chunks are sent again.",
			Advice: "Look for drops on the way: kernel-drops names hosts whose buffers are too small; counters of switch " +
				"ports and cables say the rest.",
		},
		{
			ID:       "link-one-way",
			Severity: warning,
			Hold:     2 * time.Second,
			find:     oneWay,
			When: "More than 1 % of what one node sends to another is sent again, and less than a tenth of that share on " +
				"the way back.",
			Advice: "One direction of that path loses packets: look at the port and the cable of the receiver, and at its " +
				"receive buffer.",
		},
		{
			ID:       "kernel-drops",
			Severity: warning,
			Hold:     time.Second,
			find:     kernelDrops,
			When:     "The kernel of a node's host throws away packets that came for it.",
			Advice: "Raise net.core.rmem_max on that host, and see that the node has a processor when packets come; `ringlet " +
				"doctor` says what is there.",
		},
		{
			ID:       "not-taken",
			Severity: warning,
			Hold:     2 * time.Second,
			find:     notTaken,
			When:     "The kernel does not take more than 1 % of the packets that a node sends.",
			Advice: "Look at the queue of its interface and at the memory of its host; if there is no route, at its " +
				"addresses.",
		},
		{
			ID:       "refused",
			Severity: bad,
			find:     refused,
			When: "A node refuses what others send: writes that the export table does not allow, signals and datagrams " +
				"that make no sense, packets that are forged.",
			Advice: "The node's log names the peer; run the same release everywhere, and look whether somebody else is on " +
				"the data network.",
		},
		{
			ID:       "dropped-on-purpose",
			Severity: info,
			Hold:     time.Second,
			find:     dropped,
			When:     "Datagrams are thrown away on purpose (`debug.drop`).",
			Advice:   "That is a test: take the setting out of the configuration for a real run.",
		},
	}
}

// minChunks is how many chunks must have been sent in that time for a share of them to mean anything.
const minChunks = 1000

// direction is one direction of a link.
type direction struct {
	from, to     string
	sent, resent float64
}

func (w *direction) share() float64 {
	if w.sent == 0 {
		return 0
	}
	return w.resent / w.sent
}

// directions are the directions between nodes, with what went over them since the base.
func (v *view) directions() (out []direction) {
	type pair struct{ ru, bu uint32 }
	was := map[pair]*ecsv1.Traffic{}
	for _, t := range v.base.GetTraffic() {
		was[pair{t.GetRu(), t.GetBu()}] = t
	}
	rus, bus := map[uint32]string{}, map[uint32]string{}
	for _, n := range v.now.GetNodes() {
		if n.GetReadout() {
			rus[n.GetRuIndex()] = n.GetName()
		}
		if n.GetBuilder() {
			bus[n.GetBuIndex()] = n.GetName()
		}
	}
	for _, t := range v.now.GetTraffic() {
		b := was[pair{t.GetRu(), t.GetBu()}]
		if b == nil {
			continue
		}
		out = append(out, direction{
			rus[t.GetRu()], bus[t.GetBu()], increase(t.GetChunksSent(), b.GetChunksSent()),
			increase(t.GetChunksResent(), b.GetChunksResent()),
		})
	}
	return out
}

func sentAgain(v *view) findings {
	n, b := v.now.GetTotal(), v.base.GetTotal()
	all := direction{sent: increase(n.GetChunksSent(), b.GetChunksSent()),
		resent: increase(n.GetChunksResent(), b.GetChunksResent())}
	if !v.running() || all.sent < minChunks || all.share() <= 0.01 {
		return nil
	}
	worst := direction{}
	for _, w := range v.directions() {
		if w.sent >= minChunks/10 && w.share() > worst.share() {
			worst = w
		}
	}
	what := percent(all.share()) + " of the chunks are sent again"
	if worst.resent > 0 {
		what += fmt.Sprintf(", most from %s to %s: %s", worst.from, worst.to, percent(worst.share()))
	}
	return findings{{"network", what}}
}

func oneWay(v *view) (out findings) {
	dirs := v.directions()
	for i := range dirs {
		there := &dirs[i]
		for j := range dirs {
			back := &dirs[j]
			if there.from == there.to || there.from != back.to || there.to != back.from {
				continue
			}
			if v.running() && there.sent >= minChunks && back.sent >= minChunks && there.share() > 0.01 &&
				back.share() < there.share()/10 {
				name := there.from + " to " + there.to
				out.add(name, "from %s, %s of the chunks are sent again, and %s on the way back",
					name, percent(there.share()), percent(back.share()))
			}
		}
	}
	return out
}

func kernelDrops(v *view) (out findings) {
	for _, m := range v.members() {
		if d := m.increase("socket.kernel_drops"); d > 0 {
			out.add(m.GetName(), "the kernel threw away %.0f packets that came for %s, %.0f a second", d, m.GetName(),
				d/m.seconds)
		}
	}
	return out
}

func notTaken(v *view) (out findings) {
	for _, m := range v.members() {
		n, sent := m.increase("socket.not_taken"), m.increase("socket.sent_packets")
		if n > 0 && n/(n+sent) > 0.01 {
			out.add(m.GetName(), "the kernel of %s did not take %s of the packets it sends",
				m.GetName(), percent(n/(n+sent)))
		}
	}
	return out
}

// refusals are the counters of what must never come.
var refusals = []struct{ counter, what string }{
	{"node.writes_refused", "writes that the export table does not allow"},
	{"node.bad_signals", "signals that no unit could use"},
	{"node.malformed", "datagrams that were not understood"}, {"socket.quic_forged",
		"packets that were forged or damaged"},
}

func refused(v *view) (out findings) {
	for _, m := range v.members() {
		for _, r := range refusals {
			if n := m.increase(r.counter); n > 0 {
				out.add(m.GetName(), "%s refused %.0f %s", m.GetName(), n, r.what)
			}
		}
	}
	return out
}

func dropped(v *view) findings {
	n := 0.0
	for _, m := range v.members() {
		n += m.increase("link.datagrams_dropped")
	}
	if n == 0 {
		return nil
	}
	return findings{{"network", fmt.Sprintf("%.0f datagrams a second are thrown away on purpose", n/v.span().Seconds())}}
}
