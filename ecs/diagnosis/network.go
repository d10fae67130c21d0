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
			Severity: severityWarning,
			Hold:     2 * time.Second,
			find:     findResentChunks,
			When:     "More than 1 % of the chunks are sent again.",
			Advice: "Look for drops on the way: kernel-drops names hosts whose buffers are too small; counters of switch " +
				"ports and cables say the rest.",
		},
		{
			ID:       "link-one-way",
			Severity: severityWarning,
			Hold:     2 * time.Second,
			find:     findOneWayLoss,
			When: "More than 1 % of what one node sends to another is sent again, and less than a tenth of that share on " +
				"the way back.",
			Advice: "One direction of that path loses packets: look at the port and the cable of the receiver, and at its " +
				"receive buffer.",
		},
		{
			ID:       "kernel-drops",
			Severity: severityWarning,
			Hold:     time.Second,
			find:     findKernelDrops,
			When:     "The kernel of a node's host throws away packets that came for it.",
			Advice: "Raise net.core.rmem_max on that host, and see that the node has a processor when packets come; `ringlet " +
				"doctor` says what is there.",
		},
		{
			ID:       "not-taken",
			Severity: severityWarning,
			Hold:     2 * time.Second,
			find:     findPacketsNotTaken,
			When:     "The kernel does not take more than 1 % of the packets that a node sends.",
			Advice: "Look at the queue of its interface and at the memory of its host; if there is no route, at its " +
				"addresses.",
		},
		{
			ID:       "refused",
			Severity: severityError,
			find:     findRefusals,
			When: "A node refuses what others send: writes that the export table does not allow, signals and datagrams " +
				"that make no sense, packets that are forged.",
			Advice: "The node's log names the peer; run the same release everywhere, and look whether other programs send on " +
				"the data network.",
		},
		{
			ID:       "dropped-on-purpose",
			Severity: severityInfo,
			Hold:     time.Second,
			find:     findDroppedDatagrams,
			When:     "Datagrams are thrown away on purpose (`debug.drop`).",
			Advice:   "That is a test: take the setting out of the configuration for a real run.",
		},
	}
}

// minChunks is the least number of chunks, in the baseline window, of which a share is meaningful.
const minChunks = 1000

// linkDirection is one direction of a link.
type linkDirection struct {
	from, to                 string
	sentChunks, resentChunks float64
}

func (w *linkDirection) resentShare() float64 {
	if w.sentChunks == 0 {
		return 0
	}
	return w.resentChunks / w.sentChunks
}

// linkDirections are the directions between readout and builder units, with the chunks since the base snapshot.
func (v *view) linkDirections() (out []linkDirection) {
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
		out = append(out, linkDirection{
			rus[t.GetRu()], bus[t.GetBu()], increase(t.GetChunksSent(), b.GetChunksSent()),
			increase(t.GetChunksResent(), b.GetChunksResent()),
		})
	}
	return out
}

func findResentChunks(v *view) findings {
	n, b := v.now.GetTotal(), v.base.GetTotal()
	all := linkDirection{sentChunks: increase(n.GetChunksSent(), b.GetChunksSent()),
		resentChunks: increase(n.GetChunksResent(), b.GetChunksResent())}
	if !v.isRunning() || all.sentChunks < minChunks || all.resentShare() <= 0.01 {
		return nil
	}
	worst := linkDirection{}
	for _, w := range v.linkDirections() {
		if w.sentChunks >= minChunks/10 && w.resentShare() > worst.resentShare() {
			worst = w
		}
	}
	what := percent(all.resentShare()) + " of the chunks are sent again"
	if worst.resentChunks > 0 {
		what += fmt.Sprintf(", most from %s to %s: %s", worst.from, worst.to, percent(worst.resentShare()))
	}
	return findings{{"network", what}}
}

func findOneWayLoss(v *view) (out findings) {
	dirs := v.linkDirections()
	for i := range dirs {
		there := &dirs[i]
		for j := range dirs {
			back := &dirs[j]
			if there.from == there.to || there.from != back.to || there.to != back.from {
				continue
			}
			if v.isRunning() && there.sentChunks >= minChunks && back.sentChunks >= minChunks && there.resentShare() > 0.01 &&
				back.resentShare() < there.resentShare()/10 {
				name := there.from + " to " + there.to
				out.add(name, "from %s, %s of the chunks are sent again, and %s on the way back",
					name, percent(there.resentShare()), percent(back.resentShare()))
			}
		}
	}
	return out
}

func findKernelDrops(v *view) (out findings) {
	for _, m := range v.members() {
		if d := m.increase("socket.kernel_drops"); d > 0 {
			out.add(m.GetName(), "the kernel threw away %.0f packets that came for %s, %.0f a second", d, m.GetName(),
				d/m.seconds)
		}
	}
	return out
}

func findPacketsNotTaken(v *view) (out findings) {
	for _, m := range v.members() {
		n, sent := m.increase("socket.not_taken"), m.increase("socket.sent_packets")
		if n > 0 && n/(n+sent) > 0.01 {
			out.add(m.GetName(), "the kernel of %s did not take %s of the packets it sends",
				m.GetName(), percent(n/(n+sent)))
		}
	}
	return out
}

// refusalCounters count traffic that sound peers never send.
var refusalCounters = []struct{ counter, what string }{
	{"node.writes_refused", "writes that the export table does not allow"},
	{"node.bad_signals", "signals that no unit could use"},
	{"node.malformed", "datagrams that were not understood"}, {"socket.quic_forged",
		"packets that were forged or damaged"},
}

func findRefusals(v *view) (out findings) {
	for _, m := range v.members() {
		for _, r := range refusalCounters {
			if n := m.increase(r.counter); n > 0 {
				out.add(m.GetName(), "%s refused %.0f %s", m.GetName(), n, r.what)
			}
		}
	}
	return out
}

func findDroppedDatagrams(v *view) findings {
	n := 0.0
	for _, m := range v.members() {
		n += m.increase("link.datagrams_dropped")
	}
	if n == 0 {
		return nil
	}
	return findings{{"network", fmt.Sprintf("%.0f datagrams a second are thrown away on purpose", n/v.span().Seconds())}}
}
