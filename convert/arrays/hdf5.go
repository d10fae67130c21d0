package arrays

import (
	"encoding/binary"
	"math"
)

const (
	superblockBytes = 48
	undefined       = math.MaxUint64 // an address that leads nowhere
	nodeChildren    = 64             // of a node of a chunk's B-tree: the library's default, twice 32
)

// Types of messages in an object header (IV.A.2).
const (
	messageDataspace = 0x01
	messageLinkInfo  = 0x02
	messageDatatype  = 0x03
	messageFill      = 0x05
	messageLink      = 0x06
	messageLayout    = 0x08
	messageGroupInfo = 0x0A
	messageAttribute = 0x0C
)

var le = binary.LittleEndian

// completeHDF5 writes what describes the arrays, whose blocks are in the file, and last the superblock, by which others
// know the file.
func (f *File) completeHDF5() error {
	var tables []string
	members := map[string][]link{}
	for _, a := range f.arrays {
		at, err := f.dataset(a)
		if err != nil {
			return err
		}
		if members[a.table] == nil {
			tables = append(tables, a.table)
		}
		members[a.table] = append(members[a.table], link{a.name, at})
	}
	var root []link
	for _, table := range tables {
		at, err := f.put(group(members[table]).end())
		if err != nil {
			return err
		}
		root = append(root, link{table, at})
	}
	header := group(root)
	if err := f.describeHDF5(header); err != nil {
		return err
	}
	at, err := f.put(header.end())
	if err != nil {
		return err
	}
	if err := f.file.Truncate(f.main.end); err != nil {
		return err
	}
	b := append([]byte("\x89HDF\r\n\x1a\n"), 2, 8, 8, 0) // version, bytes of offsets and of lengths, flags
	for _, address := range []uint64{0, undefined, uint64(f.main.end), at} {
		b = le.AppendUint64(b, address)
	}
	_, err = f.file.WriteAt(withChecksum(b), 0)
	return err
}

// put writes bytes behind what is in the file, and returns their address.
func (f *File) put(b []byte) (uint64, error) {
	at := f.main.reserve(len(b))
	_, err := f.file.WriteAt(b, at)
	return uint64(at), err
}

// objectHeader is the header of a group or dataset: a list of messages.
type objectHeader struct{ messages []byte }

func (h *objectHeader) add(kind byte, body []byte) {
	h.messages = append(h.messages, kind)
	h.messages = le.AppendUint16(h.messages, uint16(len(body)))
	h.messages = append(h.messages, 0) // flags
	h.messages = append(h.messages, body...)
}

// end is the complete header.
func (h *objectHeader) end() []byte {
	b := append([]byte("OHDR"), 2, 2) // version; the length has 4 bytes
	b = le.AppendUint32(b, uint32(len(h.messages)))
	return withChecksum(append(b, h.messages...))
}

// link is a name in a group.
type link struct {
	name string
	at   uint64
}

// group is the header of a group with links.
func group(links []link) *objectHeader {
	h := &objectHeader{}
	info := le.AppendUint64([]byte{0, 0}, undefined)
	h.add(messageLinkInfo, le.AppendUint64(info, undefined))
	h.add(messageGroupInfo, []byte{0, 0})
	for _, l := range links {
		b := append([]byte{1, 0, byte(len(l.name))}, l.name...)
		h.add(messageLink, le.AppendUint64(b, l.at))
	}
	return h
}

// dataset writes the index and the header of an array.
func (f *File) dataset(a *Array) (uint64, error) {
	index, err := f.index(a)
	if err != nil {
		return 0, err
	}
	h := &objectHeader{}
	space := le.AppendUint64([]byte{2, 1, 1, 1}, a.length()) // version, dimensions, largest sizes follow, simple
	h.add(messageDataspace, le.AppendUint64(space, math.MaxUint64))
	h.add(messageDatatype, a.of.datatype())
	h.add(messageFill, []byte{3, 0x0B})               // version; space is taken as it is needed, values if they are set
	layout := le.AppendUint64([]byte{3, 2, 2}, index) // version, chunks, dimensions with that of an element's bytes
	layout = le.AppendUint32(layout, uint32(a.size/a.of.size))
	h.add(messageLayout, le.AppendUint32(layout, uint32(a.of.size)))
	return f.put(h.end())
}

// length is the number of elements.
func (a *Array) length() uint64 { return uint64(a.total) / uint64(a.of.size) }

// datatype describes a type (IV.A.2.d).
func (t Type) datatype() []byte {
	integer := func(sign byte) []byte {
		b := le.AppendUint32([]byte{0x10, sign, 0, 0}, uint32(t.size))
		return le.AppendUint16(le.AppendUint16(b, 0), uint16(8*t.size)) // no bit is left out
	}
	const isSigned = 0x08
	switch t.class {
	case boolean: // as h5py has it: an enumeration of FALSE and TRUE
		b := le.AppendUint32([]byte{0x38, 2, 0, 0}, 1)
		b = append(b, integer(isSigned)...)
		return append(b, "FALSE\x00TRUE\x00\x00\x01"...)
	case signed:
		return integer(isSigned)
	case float: // IEEE 754, 64 bits: places and widths of sign, exponent, mantissa, and the exponent's bias
		return []byte{0x11, 0x20, 63, 0, 8, 0, 0, 0, 0, 0, 64, 0, 52, 11, 0, 52, 0xFF, 3, 0, 0}
	case text: // UTF-8, zeros behind it
		return le.AppendUint32([]byte{0x13, 0x11, 0, 0}, uint32(t.size))
	default:
		return integer(0)
	}
}

// index writes the B-tree of an array's chunks, from its leaves to its root, and returns the address of the root.
func (f *File) index(a *Array) (uint64, error) {
	if len(a.places) == 0 {
		return undefined, nil
	}
	step := uint64(a.size / a.of.size) // elements of a child
	children := a.places
	for level := byte(0); ; level++ {
		var nodes []int64
		for i := 0; i < len(children); i += nodeChildren {
			of := children[i:min(i+nodeChildren, len(children))]
			node, err := f.putNode(a, level, uint64(i)*step, step, of, i+nodeChildren >= len(children))
			if err != nil {
				return 0, err
			}
			nodes = append(nodes, node)
		}
		if len(nodes) == 1 {
			return uint64(nodes[0]), nil
		}
		children, step = nodes, step*nodeChildren
	}
}

// putNode writes a node whose first child begins at an element, and each other one step elements later.
func (f *File) putNode(a *Array, level byte, first, step uint64, children []int64, last bool) (int64, error) {
	const keyBytes, nodeBytes = 24, 24 + nodeChildren*8 + (nodeChildren+1)*24
	b := append(make([]byte, 0, nodeBytes), 'T', 'R', 'E', 'E', 1, level)
	b = le.AppendUint16(b, uint16(len(children)))
	left, right := uint64(undefined), uint64(undefined) // nodes of a level stand one behind the other
	if first > 0 {
		left = uint64(f.main.end) - nodeBytes
	}
	if !last {
		right = uint64(f.main.end) + nodeBytes
	}
	b = le.AppendUint64(le.AppendUint64(b, left), right)
	key := func(element, bytes, behind uint64) {
		b = le.AppendUint64(b, bytes) // 32 bits, and no filter was left out
		b = le.AppendUint64(le.AppendUint64(b, element), behind)
	}
	for i, at := range children {
		key(first+uint64(i)*step, uint64(a.size), 0)
		b = le.AppendUint64(b, uint64(at))
	}
	end := first + uint64(len(children))*step
	if last { // behind the last chunk
		end = uint64(len(a.places)) * uint64(a.size/a.of.size)
	}
	key(end, 0, uint64(a.of.size))
	at, err := f.put(b[:nodeBytes])
	return int64(at), err
}

// describeHDF5 adds the description of the file, if there is one, as an attribute to the header of the root group: a
// text of variable length, which stands in a heap (III.E).
func (f *File) describeHDF5(h *objectHeader) error {
	if f.about == "" {
		return nil
	}
	const least, headBytes = 4096, 16 // of a heap; of a heap and of an object in it
	size := headBytes + headBytes + (len(f.about)+7)&^7
	free := max(0, least-size)
	heap := le.AppendUint64(append([]byte("GCOL"), 1, 0, 0, 0), uint64(size+free))
	heap = le.AppendUint64(heap, 1) // the number of the object; nobody counts references
	heap = append(le.AppendUint64(heap, uint64(len(f.about))), f.about...)
	heap = append(heap, make([]byte, size+free-len(heap))...)
	if free >= headBytes { // free space is an object with number 0; its size includes its head
		le.PutUint64(heap[size+8:], uint64(free))
	}
	at, err := f.put(heap)
	if err != nil {
		return err
	}
	datatype := []byte{0x19, 1, 1, 0, 16, 0, 0, 0, 0x10, 0, 0, 0, 1, 0, 0, 0, 0, 0, 8, 0} // text of variable length, UTF-8
	dataspace := []byte{2, 0, 0, 0}                                                       // one value
	b := []byte{3, 0, byte(len(aboutName) + 1), 0, byte(len(datatype)), 0, byte(len(dataspace)), 0, 0}
	b = append(append(append(b, aboutName...), 0), datatype...)
	b = le.AppendUint32(append(b, dataspace...), uint32(len(f.about)))
	h.add(messageAttribute, le.AppendUint32(le.AppendUint64(b, at), 1))
	return nil
}
