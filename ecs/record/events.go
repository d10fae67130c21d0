package record

import (
	"encoding/binary"
	"fmt"

	"go.etcd.io/bbolt"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// runNumber reads the key of a run.
func runNumber(key []byte) uint32 { return binary.BigEndian.Uint32(key) }

// AddEvent adds events to a run, all or none. Of more than about 5000 it keeps the first and the last; the record says
// how many are missing.
func (s *Store) AddEvent(run uint32, events ...*ecsv1.Event) error {
	return s.update(func(tx *bbolt.Tx) error {
		r, err := s.findSummary(tx, run)
		if err != nil {
			return err
		}
		if IsClosed(r) {
			return &ClosedError{run}
		}
		b, err := tx.Bucket(bucketEvents).CreateBucketIfNotExists(runKey(run))
		if err != nil {
			return err
		}
		for _, e := range events {
			if err := s.addEvent(b, run, e); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *Store) addEvent(b *bbolt.Bucket, run uint32, e *ecsv1.Event) error {
	n, err := b.NextSequence()
	if err != nil {
		return err
	}
	v, err := encode(kindEvent, eventKey(run, n), e)
	if err != nil {
		return err
	}
	return putBounded(b, n, v, s.limits.keptFirstEvents, s.limits.keptLastEvents)
}

// putBounded puts value n after the earlier ones, and deletes one so that the first and the last remain.
func putBounded(b *bbolt.Bucket, n uint64, v []byte, first, last uint64) error {
	if err := b.Put(sequenceKey(n), v); err != nil {
		return err
	}
	if n <= first+last {
		return nil
	}
	return b.Delete(sequenceKey(n - last))
}

// eventKey is the key in the checksum of an event: its run and its number in the run.
func eventKey(run uint32, n uint64) []byte { return append(runKey(run), sequenceKey(n)...) }

// readEvents reads the events of a run. An event of kind "gap" replaces those that were not kept or are damaged.
func (s *Store) readEvents(tx *bbolt.Tx, r *ecsv1.Run) []*ecsv1.Event {
	b := tx.Bucket(bucketEvents).Bucket(runKey(r.GetNumber()))
	if b == nil {
		return nil
	}
	var out []*ecsv1.Event
	note := func(at *timestamppb.Timestamp, format string, args ...any) {
		out = append(out, &ecsv1.Event{
			At:        at,
			Kind:      "gap",
			Component: "record",
			Severity:  ecsv1.Severity_SEVERITY_WARNING,
			Run:       r.GetNumber(),
			Text:      fmt.Sprintf(format, args...),
		})
	}
	seen, at := uint64(0), r.GetStartBegun()
	upTo := func(n uint64) {
		if n > seen+1 {
			note(at, "%d events of this run are not on record, which keeps the first %d and the last %d", n-seen-1,
				s.limits.keptFirstEvents, s.limits.keptLastEvents)
		}
		seen = n
	}
	_ = b.ForEach(func(key, v []byte) error { // returns the function's error, which is always nil
		if len(key) != 8 {
			note(at, "an event of this run is damaged: its key %x has not 8 bytes", key)
			return nil
		}
		n := binary.BigEndian.Uint64(key)
		upTo(n)
		e := &ecsv1.Event{}
		if err := decode(kindEvent, eventKey(r.GetNumber(), n), v, e); err != nil {
			note(at, "event %d of this run is damaged: %v", n, err)
			return nil
		}
		out, at = append(out, e), e.GetAt()
		return nil
	})
	upTo(b.Sequence() + 1)
	return out
}

// AddAudit numbers an entry and adds it to the audit log, which keeps the newest 100,000.
func (s *Store) AddAudit(e *ecsv1.AuditEntry) error {
	return s.update(func(tx *bbolt.Tx) error {
		b := tx.Bucket(bucketAudit)
		n, err := b.NextSequence()
		if err != nil {
			return err
		}
		numbered := proto.CloneOf(e)
		numbered.Number = n
		v, err := encode(kindAudit, sequenceKey(n), numbered)
		if err != nil {
			return err
		}
		return putBounded(b, n, v, 0, s.limits.auditEntries)
	})
}

// ListAudit reads the newest entries of the audit log, newest first, at most limit. It replaces a damaged entry by one
// that says so. If it reaches the oldest entry and older ones were dropped, a last entry says how many.
func (s *Store) ListAudit(limit int) ([]*ecsv1.AuditEntry, error) {
	return viewTx(s, func(tx *bbolt.Tx) (out []*ecsv1.AuditEntry, err error) {
		oldest := uint64(1)
		c := tx.Bucket(bucketAudit).Cursor()
		for key, v := c.Last(); key != nil; key, v = c.Prev() {
			if len(out) >= limit {
				return out, nil
			}
			e := &ecsv1.AuditEntry{}
			if err := decode(kindAudit, key, v, e); err != nil {
				e = &ecsv1.AuditEntry{User: "record", Action: "audit",
					Answer: fmt.Sprintf("the entry with the key %x is damaged: %v", key, err)}
			}
			out = append(out, e)
			if len(key) == 8 {
				oldest = binary.BigEndian.Uint64(key)
			}
		}
		if oldest > 1 {
			out = append(out, &ecsv1.AuditEntry{User: "record", Action: "audit",
				Answer: fmt.Sprintf("%d older entries are no longer kept: the log holds %d", oldest-1, s.limits.auditEntries)})
		}
		return out, nil
	})
}
