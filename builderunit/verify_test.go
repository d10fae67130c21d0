package builderunit

import (
	"errors"
	"testing"

	"ringlet/internal/crc32c"
)

// TestChecksOfAnySize holds that a byte that differs is found in small MEPs, whose MFPs are summed side by side, and in
// large ones.
func TestChecksOfAnySize(t *testing.T) {
	for _, size := range []int{64, maxBatchSumBytes / 4, maxBatchSumBytes, 3 * maxBatchSumBytes} {
		memory := make([]byte, 4*size)
		var places []mfpPlace
		for i := range 4 {
			memory[i*size] = byte(i)
			places = append(places, mfpPlace{
				Source: uint16(i),
				Offset: i * size,
				Size:   size,
				CRC:    crc32c.Sum(memory[i*size : (i+1)*size]),
			})
		}
		v := verifier{depth: VerifyCRC}
		if err := v.check(7, memory, places); err != nil {
			t.Errorf("MFPs of %d bytes: %v", size, err)
		}
		memory[3*size-1]++
		var wrong *DataError
		if err := v.check(7, memory, places); !errors.As(err, &wrong) || wrong.Source != 2 {
			t.Errorf("MFPs of %d bytes, and source 2 is wrong: %v", size, err)
		}
	}
}
