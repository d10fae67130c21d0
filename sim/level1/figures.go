package level1

import "ringlet/sim/figure"

// Figures are the figures of this package.
var Figures = []figure.Figure{
	{
		ID:    "F42",
		Place: "000 §5.1.2 Fig. 5.3",
		Title: "many senders, one receiver, one ring",
		Note: "with five sources 000 loses 17 MByte/s (its summary says 15). The model does not: the receiver's bus " +
			"is the limit in both cases, and busy echoes cost it nothing",
		Run: manyToOne,
	},
	{
		ID:    "F45",
		Place: "000 §5.1.4 Fig. 5.7, Tables 5.2, 5.3",
		Title: "latency of a packet, bus to bus",
		Run:   packetLatency,
	},
	{
		ID:    "F46",
		Place: "000 §5.1.4 Fig. 5.8",
		Title: "longest path of a 9 × 3 torus",
		Run:   longestPath,
	},
	{
		ID:    "F47",
		Place: "000 §5.2.2 Figs. 5.11–5.14",
		Title: "a hardware DMA engine alone",
		Run:   hardwareDMA,
	},
	{
		ID:    "F48",
		Place: "000 §5.2.3 Fig. 5.19",
		Title: "two engines interleaved",
		Run:   interleaved,
	},
	{
		ID:    "F49",
		Place: "000 §5.3",
		Title: "the largest ring without congestion",
		Note:  "000 prints 107; its formula gives 105",
		Run:   largestRing,
	},
	{
		ID:    "F56",
		Place: "000 §7.8 Fig. 7.22",
		Title: "maximum rate of the TagNet's chain",
		Note:  "the rates above 128 B are of the formula N_cc = 14 + 34 per 128 B",
		Run:   maximumRate,
	},
	{
		ID:    "F57",
		Place: "000 §7.7 Figs. 7.19, 7.20",
		Title: "normal run of the prototype",
		Run:   normalRun,
	},
	{
		ID:    "F61",
		Place: "000 §7.9.1 Figs. 7.23–7.25",
		Title: "three senders side by side, not in step",
		Note: "each has a receiver of its own. With two senders it says the same as F62, to which Settle is fitted; " +
			"with three it is a prediction",
		Run: threeUnits,
	},
	{
		ID:    "F62",
		Place: "000 §7.9.1 Fig. 7.26",
		Title: "two senders side by side, four receivers each",
		Note:  "sci.Dolphin's Settle is fitted to this figure",
		Run:   twoUnits,
	},
	{
		ID:    "F66",
		Place: "000 §7.10 Figs. 7.34, 7.35",
		Title: "what a route node costs",
		Note:  "the B-Link's arbitration is fitted to F65, where 453 MByte/s is too much for it",
		Run:   routeNode,
	},
}
