package record

import (
	"fmt"

	"go.etcd.io/bbolt"
)

// Remember stores a value under a key, for a restarted control, and replaces an older one. A nil value deletes the key.
func (s *Store) Remember(key string, value []byte) error {
	return s.update(func(tx *bbolt.Tx) error {
		if value == nil {
			return tx.Bucket(bucketMemory).Delete([]byte(key))
		}
		return tx.Bucket(bucketMemory).Put([]byte(key), sealValue(kindMemory, []byte(key), value))
	})
}

// Recall returns a copy of the value under a key; nil, and no error, if there is none.
func (s *Store) Recall(key string) ([]byte, error) {
	return viewTx(s, func(tx *bbolt.Tx) ([]byte, error) {
		v := tx.Bucket(bucketMemory).Get([]byte(key))
		if v == nil {
			return nil, nil
		}
		payload, err := openValue(kindMemory, []byte(key), v)
		if err != nil {
			return nil, s.logDamaged(&DamagedError{s.path, fmt.Sprintf("what is remembered as %q", key), err.Error()})
		}
		return append([]byte{}, payload...), nil
	})
}
