package topology

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"

	"ringlet/internal/safeopen"
	"ringlet/node/config"
)

// file is a topology file as written; docs/planning.md explains the keys.
type file struct {
	Tree  *treeFile  `yaml:"fat-tree"`
	Torus *torusFile `yaml:"torus"`
	Order []*string  `yaml:"order"`
	RUs   []*string  `yaml:"rus"`
	BUs   []*string  `yaml:"bus"`
}

type treeFile struct {
	Leaves   int         `yaml:"leaves"`
	Spines   int         `yaml:"spines"`
	Links    int         `yaml:"links"`
	Parallel string      `yaml:"parallel" enum:"any,fixed"`
	Ports    perLeaf     `yaml:"ports"`
	Nodes    perLeaf     `yaml:"nodes"`
	Map      [][]*string `yaml:"map"`
}

type torusFile struct {
	Rows      int         `yaml:"rows"`
	Columns   int         `yaml:"columns"`
	Flows     int         `yaml:"flows"`
	RUColumns []int       `yaml:"ru-columns"`
	Map       [][]*string `yaml:"map"`
}

// perLeaf is one number for all leaves, or a list with a number for each.
type perLeaf struct {
	values  []int
	uniform bool // values has one number, for all leaves
}

// UnmarshalYAML reads either form.
func (p *perLeaf) UnmarshalYAML(node *yaml.Node) error {
	list := node.Content
	if p.uniform = node.Kind != yaml.SequenceNode; p.uniform {
		list = []*yaml.Node{node}
	}
	p.values = make([]int, len(list))
	for i, n := range list {
		v, err := strconv.Atoi(n.Value)
		if err != nil || n.Kind != yaml.ScalarNode {
			return errors.New("expected a whole number, or a list of one for each leaf")
		}
		p.values[i] = v
	}
	return nil
}

// Load reads a topology file. Invalid content is a *config.InvalidError that names the file, the line and the key; a
// file that cannot be read is an *fs.PathError.
func Load(path string) (*Topology, error) {
	f, err := safeopen.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return parse(path, f)
}

// parse is Load for an open file; name is its name in errors.
func parse(name string, in io.Reader) (*Topology, error) {
	f := file{}
	d, err := config.Read(name, in, &f)
	if err != nil {
		return nil, err
	}
	if err := d.Err(); err != nil {
		return nil, err
	}
	p := parser{Document: d}
	t := p.topology(&f)
	if err := d.Err(); err != nil {
		return nil, err
	}
	return t, nil
}

// parser makes a topology from the file, and collects its problems.
type parser struct {
	*config.Document
	nodes []Node
	index map[string]int
}

func (p *parser) topology(f *file) *Topology {
	p.index = map[string]int{}
	t := &Topology{}
	switch {
	case f.Tree != nil && f.Torus != nil:
		p.AddProblem("torus", "a network is a fat-tree or a torus, not both")
	case f.Tree != nil:
		t.net = p.tree(f.Tree)
	case f.Torus != nil:
		t.net = p.torus(f.Torus)
	default:
		p.AddProblem("", "describes no network: give fat-tree or torus")
	}
	if p.Err() != nil {
		return nil
	}
	if len(p.nodes) == 0 {
		p.AddProblem(t.net.kind(), "has no nodes")
		return nil
	}
	p.order(t, f)
	t.Nodes = p.nodes
	return t
}

// checkRange reports a number out of bounds.
func (p *parser) checkRange(path string, v, least, most int) bool {
	if v < least || v > most {
		p.AddProblem(path, "%d is not between %d and %d", v, least, most)
		return false
	}
	return true
}

func (p *parser) tree(f *treeFile) network {
	const at = "fat-tree."
	if p.Contains(at+"map") && p.Contains(at+"nodes") {
		p.AddProblem(at+"nodes", "the map says already which nodes a leaf has: leave out one of them")
		return nil
	}
	if !p.Contains(at + "links") {
		f.Links = 1
	}
	if !p.Contains(at + "leaves") {
		f.Leaves = len(f.Map)
	}
	if !p.checkRange(at+"leaves", f.Leaves, 1, 1024) || !p.checkRange(at+"spines", f.Spines, 1, 256) ||
		!p.checkRange(at+"links", f.Links, 1, 64) {
		return nil
	}
	n := &tree{
		leaves:     f.Leaves,
		spines:     f.Spines,
		links:      f.Links,
		linkByPort: f.Parallel == "fixed",
	}
	if !p.Contains(at + "ports") {
		f.Ports = perLeaf{values: []int{min(f.Spines*f.Links, maxPorts)}, uniform: true} // as many ports down as up
	}
	n.ports = p.expandPerLeaf(at+"ports", f.Ports, f.Leaves, 1, maxPorts)
	if n.ports == nil {
		return nil
	}
	if p.Contains(at + "map") {
		p.placeByLeaf(at+"map", f.Map, n.ports)
	} else {
		p.placeNumbered(at+"nodes", f.Nodes, n.ports)
	}
	return n
}

// maxPorts bounds the ports of a leaf. Switches have some hundred.
const maxPorts = 1024

// expandPerLeaf returns a number for each leaf.
func (p *parser) expandPerLeaf(path string, v perLeaf, leaves, least, most int) []int {
	each := v.values
	if v.uniform {
		each = slices.Repeat(each, leaves)
	}
	if len(each) != leaves {
		p.AddProblem(path, "lists %d leaves of %d", len(each), leaves)
		return nil
	}
	for i, n := range each {
		if n < least || n > most {
			p.AddProblem(path, "leaf %d: %d is not between %d and %d", i, n, least, most)
			return nil
		}
	}
	return each
}

// placeNumbered puts nodes n0, n1 … on the first ports of each leaf.
func (p *parser) placeNumbered(path string, v perLeaf, ports []int) {
	if !p.Contains(path) {
		p.AddProblem(path, "is missing: give the number of nodes on a leaf, or a map of their names")
		return
	}
	for leaf, n := range p.expandPerLeaf(path, v, len(ports), 0, maxPorts) {
		if n > ports[leaf] {
			p.AddProblem(path, "leaf %d: %d nodes are more than its %d ports", leaf, n, ports[leaf])
			return
		}
		for port := range n {
			if !p.node(path, "n"+strconv.Itoa(len(p.nodes)), leaf, port) {
				return
			}
		}
	}
}

// placeByLeaf puts the listed nodes of a fat tree on the ports of each leaf.
func (p *parser) placeByLeaf(path string, rows [][]*string, ports []int) {
	if len(rows) != len(ports) {
		p.AddProblem(path, "lists %d leaves of %d", len(rows), len(ports))
		return
	}
	for leaf, row := range rows {
		if len(row) > ports[leaf] {
			p.AddProblem(fmt.Sprintf("%s[%d]", path, leaf), "leaf %d: %d entries are more than its %d ports", leaf, len(row),
				ports[leaf])
		}
	}
	p.placeMapped(path, rows)
}

// placeMapped puts the nodes of a map at their places. "~" is an empty place.
func (p *parser) placeMapped(path string, rows [][]*string) {
	for r, row := range rows {
		for c, name := range row {
			if name != nil && !p.node(fmt.Sprintf("%s[%d][%d]", path, r, c), *name, r, c) {
				return
			}
		}
	}
}

// node adds a node. It returns false if there are too many nodes: further nodes would be the same mistake.
func (p *parser) node(path, name string, row, column int) bool {
	_, again := p.index[name]
	switch {
	case again:
		p.AddProblem(path, "the node %q is there twice", name)
	case name == "" || name == emptyPlace || strings.ContainsFunc(name,
		func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }):
		p.AddProblem(path, "%q is no name of a node", name)
	case len(p.nodes) == maxNodes:
		p.AddProblem(path, "has more than %d nodes", maxNodes)
		return false
	default:
		p.index[name] = len(p.nodes)
		p.nodes = append(p.nodes, Node{Name: name, Row: row, Column: column})
	}
	return true
}

func (p *parser) torus(f *torusFile) network {
	const at = "torus."
	if !p.Contains(at + "flows") {
		f.Flows = 1
	}
	// A ring with more nodes than the document allows is planned with a remark.
	if !p.checkRange(at+"rows", f.Rows, 1, maxRing) || !p.checkRange(at+"columns", f.Columns, 1, maxRing) ||
		!p.checkRange(at+"flows", f.Flows, 1, 1024) {
		return nil
	}
	for i, c := range f.RUColumns {
		p.checkRange(fmt.Sprintf("%sru-columns[%d]", at, i), c, 0, f.Columns-1)
	}
	switch {
	case !p.Contains(at + "map"):
		for i := range f.Rows * f.Columns {
			if !p.node(at+"rows", "n"+strconv.Itoa(i), i/f.Columns, i%f.Columns) {
				break
			}
		}
	case len(f.Map) != f.Rows:
		p.AddProblem(at+"map", "lists %d rows of %d", len(f.Map), f.Rows)
	default:
		for r, row := range f.Map {
			if len(row) > f.Columns {
				p.AddProblem(fmt.Sprintf("%smap[%d]", at, r), "row %d: %d entries are more than the %d columns", r, len(row),
					f.Columns)
			}
		}
		p.placeMapped(at+"map", f.Map)
	}
	return &torus{rows: f.Rows, columns: f.Columns, linkFlows: f.Flows}
}

// maxRing bounds a ring. The document's limit is 107.
const maxRing = 128

// order reads which units each node has, and its place.
func (p *parser) order(t *Topology, f *file) {
	lists, columns := p.Contains("rus") || p.Contains("bus"), p.Contains("torus.ru-columns")
	if p.Contains("order") && (lists || columns) || lists && columns {
		p.AddProblem("", "the units are listed in more than one way: give one of order, rus with bus, and ru-columns")
		return
	}
	var rus, bus []int
	switch {
	case lists:
		rus, bus = p.places("rus", f.RUs), p.places("bus", f.BUs)
	case columns:
		rus, bus = p.unitsByColumn(f.Torus.RUColumns)
	case p.Contains("order"):
		bus = p.places("order", f.Order)
		rus, t.Folded = bus, true
	default:
		for i := range p.nodes {
			bus = append(bus, i)
		}
		rus, t.Folded = bus, true
	}
	if p.Err() != nil {
		return
	}
	if countUnits(rus) == 0 || countUnits(bus) == 0 {
		p.AddProblem("", "%d readout and %d builder units are no system: it needs one of each", countUnits(rus),
			countUnits(bus))
	}
	placed := map[int]bool{}
	for _, node := range slices.Concat(rus, bus) {
		placed[node] = true
	}
	for i, n := range p.nodes {
		if !placed[i] {
			p.AddProblem("", "the node %q stands at no place of the order", n.Name)
		}
	}
	if t.GivenOrder = (Order{RUs: rus, BUs: bus}); !t.Folded {
		t.GivenOrder = padOrder(rus, bus)
	}
}

// unitsByColumn makes the nodes of whole columns of a torus readout units, and all others builder units.
func (p *parser) unitsByColumn(columns []int) (rus, bus []int) {
	for i, n := range p.nodes {
		if slices.Contains(columns, n.Column) {
			rus = append(rus, i)
		} else {
			bus = append(bus, i)
		}
	}
	return rus, bus
}

// emptyPlace marks a place without a node.
const emptyPlace = "~"

// places reads an order.
func (p *parser) places(path string, names []*string) []int {
	if len(names) > maxPlaces {
		p.AddProblem(path, "has %d places, more than %d", len(names), maxPlaces)
		return nil
	}
	out := make([]int, len(names))
	seen := map[int]bool{}
	for i, name := range names {
		out[i] = dummy
		if name == nil {
			continue
		}
		node, is := p.index[*name]
		switch {
		case !is:
			p.AddProblem(fmt.Sprintf("%s[%d]", path, i), "there is no node %q", *name)
		case seen[node]:
			p.AddProblem(fmt.Sprintf("%s[%d]", path, i), "the node %q is there twice", *name)
		default:
			seen[node], out[i] = true, node
		}
	}
	return out
}
