package readback

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
)

// An Array is the elements of an array.
type Array struct {
	Size int // bytes of an element
	Data []byte
}

// Uints are the elements as unsigned numbers.
func (a Array) Uints() (n []uint64) {
	for i := 0; i < len(a.Data); i += a.Size {
		var b [8]byte
		copy(b[:], a.Data[i:i+a.Size])
		n = append(n, binary.LittleEndian.Uint64(b[:]))
	}
	return n
}

// Texts are the elements as texts: of UTF-8, or of characters of 4 bytes.
func (a Array) Texts(wide bool) (texts []string) {
	for i := 0; i < len(a.Data); i += a.Size {
		s := string(a.Data[i : i+a.Size])
		if wide {
			s = ""
			for k := i; k < i+a.Size; k += 4 {
				s += string(rune(binary.LittleEndian.Uint32(a.Data[k:])))
			}
		}
		texts = append(texts, strings.TrimRight(s, "\x00"))
	}
	return texts
}

// Read reads a file. Names of arrays have no name of a table before them; about is the description.
func Read(path string) (map[string]Array, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if bytes.HasPrefix(b, []byte("PK")) {
		return npz(b)
	}
	return hdf5(b)
}

var npyHead = regexp.MustCompile(`^\{'descr': '[|<]([buifU])(\d+)', 'fortran_order': False, 'shape': \((\d+),\), \} *\n$`)

func npz(b []byte) (map[string]Array, error) {
	z, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return nil, err
	}
	all := map[string]Array{}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			return nil, err
		}
		b, err := io.ReadAll(r) // holds the checksum against the bytes
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		head := npyHead.FindSubmatch(b[10:128])
		if head == nil || string(b[:10]) != "\x93NUMPY\x01\x00\x76\x00" {
			return nil, fmt.Errorf("%s begins with %q", f.Name, b[:128])
		}
		size, _ := strconv.Atoi(string(head[2]))
		n, _ := strconv.Atoi(string(head[3]))
		if string(head[1]) == "U" {
			size *= 4
		}
		if len(b) != 128+n*size {
			return nil, fmt.Errorf("%s has %d bytes of %d elements of %d", f.Name, len(b), n, size)
		}
		all[strings.TrimSuffix(f.Name, ".npy")] = Array{size, b[128:]}
	}
	return all, nil
}

var le = binary.LittleEndian

func hdf5(b []byte) (all map[string]Array, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("not as it is written: %v", p)
		}
	}()
	if string(b[:12]) != "\x89HDF\r\n\x1a\n\x02\x08\x08\x00" || le.Uint64(b[28:]) != uint64(len(b)) {
		return nil, errors.New("the superblock is not right")
	}
	all = map[string]Array{}
	root := le.Uint64(b[36:])
	for _, m := range messages(b, root) {
		if m.kind == 12 { // an attribute: it ends with the length of its text, a heap and a number in it
			end := m.body[len(m.body)-16:]
			object := b[le.Uint64(end[4:]):][16:]
			if le.Uint64(object) != uint64(le.Uint32(end[12:])) || le.Uint64(object[8:]) != uint64(le.Uint32(end)) {
				return nil, errors.New("an attribute leads elsewhere")
			}
			all["about"] = Array{int(le.Uint32(end)), object[16:][:le.Uint32(end)]}
		}
	}
	for _, table := range links(b, root) {
		for name, at := range links(b, table) {
			if all[name], err = dataset(b, at); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return all, nil
}

// message is a message of an object header.
type message struct {
	kind byte
	body []byte
}

func messages(b []byte, at uint64) (list []message) {
	if string(b[at:at+6]) != "OHDR\x02\x02" {
		panic("no header")
	}
	rest := b[at+10:][:le.Uint32(b[at+6:])]
	for len(rest) > 0 {
		n := le.Uint16(rest[1:])
		list = append(list, message{rest[0], rest[4 : 4+n]})
		rest = rest[4+n:]
	}
	return list
}

func links(b []byte, at uint64) map[string]uint64 {
	to := map[string]uint64{}
	for _, m := range messages(b, at) {
		if m.kind == 6 {
			n := m.body[2]
			to[string(m.body[3:3+n])] = le.Uint64(m.body[3+n:])
		}
	}
	return to
}

func dataset(b []byte, at uint64) (a Array, err error) {
	var length, index uint64
	var chunk int
	for _, m := range messages(b, at) {
		switch m.kind {
		case 1:
			length = le.Uint64(m.body[4:])
		case 3:
			a.Size = int(le.Uint32(m.body[4:]))
		case 8:
			index, chunk = le.Uint64(m.body[3:]), int(le.Uint32(m.body[11:]))
			if int(le.Uint32(m.body[15:])) != a.Size {
				return a, errors.New("an element has two sizes")
			}
		}
	}
	if index != 1<<64-1 {
		w := walk{b: b, chunk: chunk, size: a.Size}
		a.Data = w.node(index)
	}
	want := int(length) * a.Size
	if len(a.Data) < want || len(a.Data) > want && len(a.Data)-want >= chunk*a.Size {
		return a, fmt.Errorf("%d bytes are there, of %d", len(a.Data), want)
	}
	a.Data = a.Data[:want]
	return a, nil
}

// walk goes through the B-tree of a dataset.
type walk struct {
	b           []byte
	chunk, size int
	seen        int // chunks
}

// node is the bytes of the chunks below a node.
func (w *walk) node(at uint64) (data []byte) {
	n := w.b[at:]
	if string(n[:5]) != "TREE\x01" {
		panic("no node")
	}
	level, used := n[5], int(le.Uint16(n[6:]))
	for sibling := range 2 { // who is beside it knows it
		if other := le.Uint64(n[8+8*sibling:]); other != 1<<64-1 &&
			(w.b[other+5] != level || le.Uint64(w.b[other+uint64(8+8*(1-sibling)):]) != at) {
			panic("siblings do not agree")
		}
	}
	for i := range used {
		key := n[24+i*32:]
		if int(le.Uint32(key)) != w.chunk*w.size || le.Uint64(key[8:]) != uint64(w.seen*w.chunk) {
			panic("a key is not of its chunk")
		}
		child := le.Uint64(key[24:])
		if level > 0 {
			data = append(data, w.node(child)...)
			continue
		}
		w.seen++
		data = append(data, w.b[child:][:w.chunk*w.size]...)
	}
	if end := n[24+used*32:]; le.Uint64(end[8:]) != uint64(w.seen*w.chunk) {
		panic("the last key is not behind the last chunk")
	}
	return data
}
