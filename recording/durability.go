package recording

import "fmt"

// Durability is what a MEP must survive before it counts as built.
type Durability int

// The durabilities, from the least to the most.
const (
	DurabilityMemory Durability = iota // nothing: it is in the memory of the process that writes it
	DurabilityFile                     // the death of any process: the kernel has it (write)
	DurabilityDisk                     // the loss of power: the disk has it (fdatasync)
)

var durabilityNames = [...]string{DurabilityMemory: "memory", DurabilityFile: "file", DurabilityDisk: "disk"}

func (d Durability) String() string {
	if d < 0 || int(d) >= len(durabilityNames) {
		return fmt.Sprintf("durability(%d)", int(d))
	}
	return durabilityNames[d]
}

// ParseDurability returns the durability named s: memory, file or disk.
func ParseDurability(s string) (Durability, error) {
	for d, n := range durabilityNames {
		if s == n {
			return Durability(d), nil
		}
	}
	return 0, fmt.Errorf("durability %q is not known: it is one of memory, file, disk", s)
}
