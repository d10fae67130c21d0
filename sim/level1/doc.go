// Package level1 models the level-1 farm of 000: readout units whose hardware writes fragments over a torus of SCI rings
// into the memory of computing nodes, one after the other as the TagNet says.
//
// It stands for 000, chapters 5 (the network) and 7 (the prototype). [Figures] are its figures of group W; each says what
// it takes from the document. What belongs to all of them (symbols, clocks, queues) is sci.Dolphin.
//
//   - engine.go: the DMA engine of a readout unit, free, paced, or in the TagNet's chain.
//   - network.go: latencies, rates of a bus, the largest ring, many senders to one receiver.
//   - prototype.go: the TagNet's maximum and normal rate, senders side by side, a route node.
//
// A MByte is 2^20 bytes, as in the document.
//
// What it does not promise: curves of which the document shows only a plot, and software (PIO, interrupts).
package level1
