package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"ringlet/event/placing"
)

// Counts are the numbers of sources of readout units: "3" for three of each, "5,3" for five of the first and three of
// the second, "0" if it is left open. A file may also have a list, [5, 3]. The value is the shortest such text, so that
// equal configurations have equal values; "" is "0".
type Counts string

// parseCounts reads the text form. It returns nil if the numbers are left open.
func parseCounts(text string) ([]int, error) {
	var counts []int
	for item := range strings.SplitSeq(text, ",") {
		n, err := strconv.ParseUint(strings.TrimSpace(item), 10, 32)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%q is neither a number nor numbers such as 5,3, one for each readout unit", text)
		case n > maxSources:
			return nil, fmt.Errorf("%d is more than the %d sources that a 16-bit source id can tell apart", n, maxSources)
		}
		if counts = append(counts, int(n)); len(counts) > maxSources {
			return nil, fmt.Errorf("it lists the sources of more than %d readout units, which is the most", maxSources)
		}
	}
	if len(counts) == 1 && counts[0] == 0 {
		return nil, nil
	}
	return counts, nil
}

// list returns the numbers; nil if they are left open.
func (c Counts) list() []int {
	if c == "" {
		return nil
	}
	counts, err := parseCounts(string(c))
	if err != nil {
		return nil // checkValues reports it
	}
	return counts
}

// countsOf is the shortest text of a division.
func countsOf(d placing.Division) Counts {
	if least, most := d.SourceRange(); least == most {
		return Counts(strconv.Itoa(most))
	}
	return formatCounts(d.Counts())
}

func formatCounts(counts []int) Counts {
	items := make([]string, len(counts))
	for i, n := range counts {
		items[i] = strconv.Itoa(n)
	}
	return Counts(strings.Join(items, ","))
}

// UnmarshalText reads the text form, for kong.
func (c *Counts) UnmarshalText(text []byte) error {
	counts, err := parseCounts(string(text))
	switch {
	case err != nil:
		return err
	case counts == nil:
		*c = "0"
	default:
		*c = formatCounts(counts)
	}
	return nil
}

// UnmarshalYAML reads a number, a list of numbers, or the text form.
func (c *Counts) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind == yaml.ScalarNode {
		return c.UnmarshalText([]byte(node.Value))
	}
	wrong := errors.New("expected a number, or a list of numbers such as [5, 3], one for each readout unit")
	if node.Kind != yaml.SequenceNode || len(node.Content) == 0 {
		return wrong
	}
	var items []string
	for _, item := range node.Content {
		if item.Kind != yaml.ScalarNode || strings.Contains(item.Value, ",") {
			return wrong
		}
		items = append(items, item.Value)
	}
	return c.UnmarshalText([]byte(strings.Join(items, ",")))
}

// MarshalYAML writes a number as a number.
func (c Counts) MarshalYAML() (any, error) {
	switch counts := c.list(); len(counts) {
	case 0:
		return 0, nil
	case 1:
		return counts[0], nil
	}
	return string(c), nil
}

// Division says which sources each readout unit has. It has no units as long as it is not known: for a file, until the
// file has been inspected.
func (c Config) Division() placing.Division {
	counts := c.Streams.list()
	switch {
	case c.RUs < 1:
	case len(counts) == 1:
		return placing.EvenDivision(c.RUs, counts[0])
	case len(counts) == c.RUs:
		return placing.NewDivision(counts...)
	case len(counts) == 0 && c.Sources > 0:
		return placing.SpreadDivision(c.Sources, c.RUs)
	}
	return placing.Division{}
}

// SetDivision sets the division that a file or a list of live sources needs.
func (c *Config) SetDivision(d placing.Division) { c.Streams = countsOf(d) }

// resolveDivision sets the division if the settings decide it, and refuses an invalid one.
func (c *draft) resolveDivision() {
	counts := c.Streams.list()
	if c.RUs < 1 || c.Sources < 0 {
		return // already reported
	}
	if n := len(counts); n > 1 && n != c.RUs {
		c.add("streams", "%s are the sources of %d readout units, and there are %d: give one number for each, or one for all",
			c.Streams, n, c.RUs)
		return
	}
	d := c.Division()
	if d.Units() == 0 { // for a file: see nodes.Prepare
		return
	}
	key := "streams"
	if len(counts) == 0 {
		key = "sources"
	}
	if err := d.Check(); err != nil {
		c.add(key, "%v", err)
		return
	}
	if n := d.Sources(); c.Sources > 0 && n != c.Sources {
		c.add("sources", "%d are not the %d that streams %s make on %d readout units: leave out sources or streams",
			c.Sources, n, c.Streams, c.RUs)
		return
	}
	c.SetDivision(d)
}
