package output

import (
	"fmt"

	"go-hep.org/x/hep/groot/rbytes"
	"go-hep.org/x/hep/groot/rdict"
	"go-hep.org/x/hep/groot/root"
)

// leafClasses are the classes of the leaves of a tree: those that groot chooses for the types of the columns.
var leafClasses = []string{"TLeafB", "TLeafI", "TLeafL", "TLeafO", "TLeafS"}

// treeDescription is the description of TTree, which knows which leaves a tree has.
//
// A reader without ROOT's own classes, such as JSROOT or uproot, reads an object by the description of its class that
// stands in the file. groot writes the descriptions of a tree and of what the description of TTree names. Leaves are in
// an array of objects without a type, so their classes are not found. With this one they are: its elements are those of
// TTree and a base of each class of leaf. What stands in the file is TTree as it is.
type treeDescription struct {
	*rdict.StreamerInfo
	leaves []rbytes.StreamerElement
}

var (
	_ rbytes.StreamerInfo = (*treeDescription)(nil)
	_ rbytes.Marshaler    = (*treeDescription)(nil)
	_ root.Object         = (*treeDescription)(nil)
)

// Elements are what groot goes through for the classes that a file must describe.
func (d *treeDescription) Elements() []rbytes.StreamerElement {
	return append(d.leaves[:len(d.leaves):len(d.leaves)], d.StreamerInfo.Elements()...)
}

// describeLeaves lets the files that are closed from now on describe the classes of leaves. It is called before each
// Close, since groot takes the description of TTree from each file that it reads.
func describeLeaves() error {
	known, err := rdict.StreamerInfos.StreamerInfo("TTree", -1)
	if err != nil {
		return err
	}
	info, ok := known.(*rdict.StreamerInfo)
	if !ok {
		return nil // it is a treeDescription
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
