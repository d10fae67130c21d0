package shmem

import (
	"cmp"
	"slices"
)

// pageSet is a set of pages as sorted ranges [first, end) that neither overlap nor touch.
type pageSet []pageRange

type pageRange struct{ first, end int }

// add returns the set with [first, end) in it. It may reuse the memory of s.
func (s pageSet) add(first, end int) pageSet {
	lo, _ := slices.BinarySearchFunc(s, first, func(r pageRange, p int) int { return cmp.Compare(r.end, p) })
	hi := lo
	for hi < len(s) && s[hi].first <= end {
		first, end = min(first, s[hi].first), max(end, s[hi].end)
		hi++
	}
	return slices.Replace(s, lo, hi, pageRange{first, end})
}

// firstAbsent returns the first page after page that is not in the set; page itself when it is not.
func (s pageSet) firstAbsent(page int) int {
	lo, hi := 0, len(s)
	for lo < hi {
		if mid := (lo + hi) / 2; s[mid].end <= page {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo < len(s) && s[lo].first <= page {
		return s[lo].end
	}
	return page
}
