package nodename

import (
	"strconv"
	"strings"
)

// MaxNodes is how many nodes a process has at most.
const MaxNodes = 16

// Join is the name of a node of a process, from its place there: 0 is the first, and less than MaxNodes.
func Join(process string, place int) string {
	if place == 0 {
		return process
	}
	return process + "." + strconv.Itoa(place)
}

// Split is the name of the process of a node, which its certificate has, and the node's place there. Any name that Join
// does not make is that of a process.
func Split(node string) (process string, place int) {
	dot := strings.LastIndexByte(node, '.')
	if dot < 0 {
		return node, 0
	}
	place, err := strconv.Atoi(node[dot+1:])
	if err != nil || place < 1 || place >= MaxNodes || Join(node[:dot], place) != node {
		return node, 0
	}
	return node[:dot], place
}

// ProcessOf is the name of the process of a node, which its certificate has.
func ProcessOf(node string) string {
	process, _ := Split(node)
	return process
}

// CountPerProcess counts the nodes of each process, by the greatest place among these nodes.
func CountPerProcess(nodes []string) map[string]int {
	count := map[string]int{}
	for _, node := range nodes {
		process, place := Split(node)
		count[process] = max(count[process], place+1)
	}
	return count
}
