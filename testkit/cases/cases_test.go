package cases

import "testing"

// TestChosen: every test runs a third of its cases, at least one, and the tests together run all of them.
func TestChosen(t *testing.T) {
	tests := []string{"TestLost", "TestComesBack", "TestExcluded", "TestPaused", "TestReset", "TestKilled"}
	for n := 1; n <= 12; n++ {
		ran := make([]bool, n)
		for _, test := range tests {
			k := 0
			for i := range n {
				if runsInShort(test, i, n) {
					ran[i] = true
					k++
				}
			}
			if k < max(1, n/shortShare) || k > (n+shortShare-1)/shortShare {
				t.Errorf("%s runs %d of %d cases", test, k, n)
			}
		}
		for i, ok := range ran {
			if !ok {
				t.Errorf("no test runs case %d of %d", i, n)
			}
		}
	}
}
