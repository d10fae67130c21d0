package source

import (
	"strings"
	"testing"

	"ringlet/event"
	"ringlet/event/placing"
)

func TestInputsDeclareTheirLargestFragment(t *testing.T) {
	for input, want := range map[string]struct {
		address string
		most    int
	}{
		"tcp:h:1":                     {"h:1", 65535},
		"tcp:h:1?max=8MiB":            {"h:1", 8 << 20},
		"tcp:h:1?secret=/s&max=1GiB":  {"h:1?secret=/s", 1 << 30},
		"tcp:h:1?max=70000&secret=/s": {"h:1?secret=/s", 70000},
		"unix:/a?b":                   {"/a?b", 65535},
		"unix:/a?max=1kB":             {"/a", 1000},
		"exec:x ?max=8MiB&name=y":     {"x", 8 << 20},
		"shm:x?max=8MiB":              {"x", 8 << 20},
		"shm:x?size=25MiB&max=8MiB":   {"x?size=25MiB", 8 << 20},
		"udp:h:1/2?max=1000":          {"h:1/2", 1000},
	} {
		list, err := ParseInputs(input)
		if err != nil || list[0].Address != want.address || list[0].MaxFragment != want.most || list[0].Text != input {
			t.Errorf("%s: %+v, %v", input, list, err)
		}
	}
	for _, input := range []string{"tcp:h:1?max=0", "tcp:h:1?max=1025MiB", "tcp:h:1?max=", "tcp:h:1?max=-1",
		"unix:/a?max=x",
		"shm:x?max=65534", "shm:x?size=24MiB&max=8MiB", "tcp:h:1?max=1&max=2"} {
		if wrong := CheckInput(input); len(wrong) != 1 || !strings.Contains(wrong[0].Error(), input) {
			t.Errorf("%s: %v", input, wrong)
		}
	}
}

// TestBlocksHaveSpaceForWhatIsDeclared: with and without a slot size, and no block is larger than a window.
func TestBlocksHaveSpaceForWhatIsDeclared(t *testing.T) {
	s := Settings{Input: "tcp:h:1?max=8MiB,tcp:h:2", RUs: 2}
	s.Packing = 100
	_, blocks, waiting, err := LiveBlocks(s)
	if err != nil || blocks[0] != 8<<20+event.WordedMFPHeaderSize(100) ||
		blocks[1] != maxSourceBytes+event.WordedMFPHeaderSize(100) {
		t.Fatal(blocks, err)
	}
	if waiting[0] < 5*8<<20 || waiting[0] > 6*8<<20 || waiting[1] > 8<<20 {
		t.Errorf("%d bytes wait for blocks", waiting)
	}
	for input, least := range map[string]int{"shm:x?max=100MiB": 300 << 20, "udp:h:1?max=100MiB": 200 << 20} {
		_, _, held, err := LiveBlocks(Settings{Input: input, RUs: 1, GeneratorConfig: s.GeneratorConfig})
		if least += 300 << 20; err != nil || held[0] < least || held[0] > least+40<<20 {
			t.Errorf("%s: %d bytes wait for blocks, %v", input, held, err)
		}
	}
	least := event.MEPHeaderSize(2) + 8<<20 + event.WordedMFPHeaderSize(100) + 65536 +
		event.WordedMFPHeaderSize(100)
	s.Live.SlotBytes = least
	if _, blocks, _, err = LiveBlocks(s); err != nil || blocks[0]+blocks[1]+event.MEPHeaderSize(2) != least {
		t.Fatal(blocks, err)
	}
	s.Live.SlotBytes = least - 1
	if _, _, _, err = LiveBlocks(s); err == nil || !strings.Contains(err.Error(), "slot-size") {
		t.Fatal(err)
	}
	s = Settings{Input: strings.Repeat(",tcp:h:1?max=1GiB", 4)[1:], RUs: 1}
	s.Packing, s.Division = 100, placing.NewDivision(4)
	if _, _, _, err = LiveBlocks(s); err == nil || !strings.Contains(err.Error(), "4 GiB") {
		t.Fatal(err)
	}
	s = Settings{Input: strings.Repeat(",tcp:h:1?max=1GiB", 2)[1:], RUs: 2}
	s.Packing, s.Division = 100, placing.NewDivision(1, 1)
	if _, _, _, err = LiveBlocks(s); err == nil || !strings.Contains(err.Error(), "2 GiB") {
		t.Fatal(err)
	}
}
