package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"go.etcd.io/bbolt"
)

// keyTerm is the key of the last term in bucketMemory.
const keyTerm = "term"

// NextTerm takes the next term of a control: larger than all before, and at least atLeast. A caller that gives the time
// in atLeast gets larger terms than controls without a file, and than one whose file was lost. A damaged last term is
// logged and does not count.
func (s *Store) NextTerm(atLeast uint64) (term uint64, err error) {
	err = s.update(func(tx *bbolt.Tx) error {
		memory, key := tx.Bucket(bucketMemory), []byte(keyTerm)
		term = atLeast
		if v := memory.Get(key); v != nil {
			last, err := openValue(kindMemory, key, v)
			switch {
			case err == nil && len(last) != 8:
				err = fmt.Errorf("it has %d bytes, and a term has 8", len(last))
			case err == nil && binary.BigEndian.Uint64(last) == math.MaxUint64:
				err = errors.New("it is the largest number: no term can follow")
			case err == nil:
				term = max(term, binary.BigEndian.Uint64(last)+1)
			}
			if err != nil {
				_ = s.logDamaged(&DamagedError{s.path, "the last term", err.Error()})
			}
		}
		return memory.Put(key, sealValue(kindMemory, key, binary.BigEndian.AppendUint64(nil, term)))
	})
	return term, err
}
