package output

import (
	"fmt"

	"go-hep.org/x/hep/groot/rbytes"
	"go-hep.org/x/hep/groot/rdict"
	"go-hep.org/x/hep/groot/root"
)

// leafClasses are the classes that groot uses for the leaves of a tree with our columns.
var leafClasses = []string{"TLeafB", "TLeafI", "TLeafL", "TLeafO", "TLeafS"}

// treeDescription is the streamer info of TTree with the classes of its leaves.
//
// A reader without ROOT's own classes, such as JSROOT or uproot, reads an object by the streamer info of its class in
// the file. groot writes the infos of a tree and of the classes that the info of TTree names. Leaves are in an array of
// objects without a type, so that groot does not find their classes. treeDescription adds a base of each class of leaf
// to the elements of TTree, so that it does. The file itself gets the unchanged info of TTree.
type treeDescription struct {
	*rdict.StreamerInfo
	leaves []rbytes.StreamerElement
}

var (
	_ rbytes.StreamerInfo = (*treeDescription)(nil)
	_ rbytes.Marshaler    = (*treeDescription)(nil)
	_ root.Object         = (*treeDescription)(nil)
)

// Elements are the elements in which groot looks for the classes that a file must describe.
func (d *treeDescription) Elements() []rbytes.StreamerElement {
	return append(d.leaves[:len(d.leaves):len(d.leaves)], d.StreamerInfo.Elements()...)
}

// describeLeaves registers a treeDescription, so that files closed from now on describe the classes of leaves. The
// caller calls it before each Close, since groot replaces the info of TTree by that of each file that it reads.
func describeLeaves() error {
	known, err := rdict.StreamerInfos.StreamerInfo("TTree", -1)
	if err != nil {
		return err
	}
	info, ok := known.(*rdict.StreamerInfo)
	if !ok {
		return nil // a treeDescription is registered
	}
	d := &treeDescription{StreamerInfo: info}
	for _, class := range leafClasses {
		leaf, err := rdict.StreamerInfos.StreamerInfo(class, -1)
		if err != nil {
			return fmt.Errorf("the library that writes ROOT files does not describe %s: %w", class, err)
		}
		base := rdict.Element{EName: "BASE"}
		base.Name.SetName(class)
		d.leaves = append(d.leaves, rdict.NewStreamerBase(base.New(), int32(leaf.ClassVersion())))
	}
	rdict.StreamerInfos.Add(d)
	return nil
}
