// Package level1 models the level-1 farm of L1-farm: readout units whose hardware writes fragments over a torus of SCI
// rings into the memory of computing nodes, one unit after the other, in the order of the TagNet.
//
// It simulates L1-farm §5 (the network) and §7 (the prototype).
//
//   - params.go: what the models read from a study about rings, cards and engines
//     (sim/documents/figures/common-sci.yaml).
//   - engine.go: the DMA engine of a readout unit, free, paced, or in the TagNet's chain.
//   - latency.go: packets alone, and held up by others; the largest ring.
//   - rates.go: engines alone, two on one bus, many to one receiver.
//   - chain.go: the TagNet at its maximum and at its normal rate.
//   - farm.go: the farm of 17 rows, its tags, events and results.
//   - columns.go: the same with more and fewer columns of computing nodes.
//   - decisions.go: sizes of events, processors, and the time that the front-end gives them.
//   - receiver.go: many to one receiver of a torus.
//   - path.go: an event's last fragment, and its result.
//   - stopped.go: the processes behind the cards, and what goes on when one is stopped.
//   - rows.go: two units in a row under the TagNet, side by side or displaced.
//   - side.go: senders side by side on a ring, and a route node.
//
// What the caller must do: hand Models to study.Study.Run.
//
// It leaves out curves of which the document shows only a plot, and software (PIO, interrupts).
package level1
