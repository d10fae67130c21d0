package record

import (
	"encoding/binary"
	"errors"
	"math"

	"go.etcd.io/bbolt"
)

// keyTerm is where the bucket of the memory keeps the last term.
const keyTerm = "term"

// NextTerm takes the next term of a control: larger than any before, and at least as large as asked. Who asks for a
// time keeps ahead of controls that have no such file, and of one whose file was lost. The term before does not count
// where it is damaged; the log has that.
func (s *Store) NextTerm(atLeast uint64) (term uint64, err error) {
	err = s.update(func(tx *bbolt.Tx) error {
		memory, key := tx.Bucket(bucketMemory), []byte(keyTerm)
		term = atLeast
		if v := memory.Get(key); v != nil {
			last, err := openValue(kindMemory, key, v)
			switch {
			case err == nil && len(last) != 8:
				err = errors.New("it is no number")
			case err == nil && binary.BigEndian.Uint64(last) == math.MaxUint64:
				err = errors.New("no number is larger")
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
