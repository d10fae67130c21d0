package link

import (
	"strings"
	"testing"
)

// TestLimits holds the constants against each other, as limits.go says.
func TestLimits(t *testing.T) {
	ack := headerSize + numSpaces*spaceAckHeader + maxSeqWindow/8 + DefaultSeqWindow/8
	for name, ok := range map[string]bool{
		"an ack of the longest bitmaps fits the smallest datagram": ack <= MinDatagram,
		"a signal does":                                   headerSize+signalHeader+MaxSignal <= MinDatagram,
		"a chunk's head and an ack do":                    headerSize+ackFrameSize+writeHeaderSize < MinDatagram,
		"the responses' ring holds its window":            ResponseCredit < DefaultSeqWindow,
		"transactions suit the ids on the wire":           maxTransactions == 1<<10,
		"chunks suit the receiver's bitmap":               maxChunks%64 == 0,
		"signals and answers fill no window of responses": maxUnackedSignals >= ResponseCredit,
		"fragments suit their bitmap":                     maxFragments <= 64,
		"the largest datagram has its length in 16 bits":  maxDatagramSize < 1<<16,
	} {
		if !ok {
			t.Errorf("it does not hold that %s", name)
		}
	}
	for window := 1; window <= maxCredit; window++ {
		if err := (Config{MaxDatagram: MinDatagram, Credit: window, SeqWindow: SeqWindowFor(window)}).Check(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestImpossibleConfigurations(t *testing.T) {
	for _, tc := range []struct {
		cfg  Config
		says string
	}{
		{Config{MaxDatagram: MinDatagram - 1}, "datagrams of 1039 bytes"},
		{Config{MaxDatagram: 1 << 16}, "datagrams of 65536 bytes"},
		{Config{MaxDatagram: 9000, BaseDatagram: 1000}, "a base of 1000 bytes"},
		{Config{MaxDatagram: 9000, BaseDatagram: 9001}, "a base of 9001 bytes"},
		{Config{MaxDatagram: 1<<16 - 1, BaseDatagram: MinDatagram}, ""},
		{Config{MaxDatagram: 9000, SeqWindow: 100}, "a sequence window of 100"},
		{Config{MaxDatagram: 9000, SeqWindow: 32, Credit: 1}, "a sequence window of 32"},
		{Config{MaxDatagram: 9000, SeqWindow: 8192}, "a sequence window of 8192"},
		{Config{MaxDatagram: 9000, SeqWindow: 64, Credit: 64}, "a credit of 64"},
		{Config{MaxDatagram: 9000, Credit: -1}, "a credit of -1"},
	} {
		err := tc.cfg.Check()
		if tc.says == "" && err != nil || tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says)) {
			t.Errorf("%+v: %v, want %q", tc.cfg, err, tc.says)
		}
	}
}
