package record

import (
	"fmt"
	"math"

	"go.etcd.io/bbolt"
	"google.golang.org/protobuf/proto"

	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// RunList is a list of runs, newest first, without their configurations, versions, accounts, events and reports.
type RunList struct {
	Runs     []*ecsv1.Run
	HasOlder bool            // there are older runs
	Damaged  []*DamagedError // runs that are missing in the list since they are damaged
}

// NextRun takes the next run number, writes the first form of the record (begun may be nil), and returns the record
// with its number.
func (s *Store) NextRun(begun *ecsv1.Run) (*ecsv1.Run, error) {
	r := &ecsv1.Run{}
	if begun != nil {
		r = proto.CloneOf(begun)
	}
	err := s.update(func(tx *bbolt.Tx) error {
		runs := tx.Bucket(bucketRuns)
		last := lastNumber(runs)
		if last >= math.MaxUint32 {
			return &exhaustedError{math.MaxUint32}
		}
		r.Number = uint32(last) + 1
		if err := runs.SetSequence(last + 1); err != nil {
			return err
		}
		return writeRecord(tx, r)
	})
	if err == nil {
		err = s.saveLastRun(r.GetNumber())
	}
	if err != nil {
		return nil, err
	}
	for l := s.newestNumber.Load(); l < r.GetNumber() && !s.newestNumber.CompareAndSwap(l,
		r.GetNumber()); l = s.newestNumber.Load() {
	}
	return r, nil
}

// lastNumber is the highest number ever taken: by the bucket's counter or by the keys, so that no number is used twice
// even if the counter is damaged.
func lastNumber(runs *bbolt.Bucket) uint64 {
	return max(runs.Sequence(), uint64(newestRunNumber(runs.Tx())))
}

// RaiseNextNumber makes the next number at least n. It never lowers it.
func (s *Store) RaiseNextNumber(n uint32) error {
	return s.update(func(tx *bbolt.Tx) error {
		runs := tx.Bucket(bucketRuns)
		if n == 0 || lastNumber(runs) >= uint64(n)-1 {
			return nil
		}
		return runs.SetSequence(uint64(n) - 1)
	})
}

// Put replaces the record of the run with r's number, but for its events. A closed record may be put again unchanged; a
// change is a ClosedError. A number that NextRun did not give is a NoRunError.
func (s *Store) Put(r *ecsv1.Run) error {
	return s.update(func(tx *bbolt.Tx) error {
		old, err := s.findSummary(tx, r.GetNumber())
		if err != nil {
			return err
		}
		if !IsClosed(old) {
			return writeRecord(tx, r)
		}
		if err := s.addDetails(tx, old); err != nil {
			return err
		}
		same := proto.CloneOf(r)
		same.Events = nil
		if !proto.Equal(old, same) {
			return &ClosedError{r.GetNumber()}
		}
		return nil
	})
}

// CompleteRun replaces the results in the record of a closed run after more of its output was read: verdict and reason,
// losses, built events, accounts, report, and the unread nodes, which must be fewer. A change of any other field is a
// ClosedError.
func (s *Store) CompleteRun(r *ecsv1.Run) error {
	return s.update(func(tx *bbolt.Tx) error {
		old, err := s.findSummary(tx, r.GetNumber())
		if err != nil {
			return err
		}
		if err := s.addDetails(tx, old); err != nil {
			return err
		}
		fewer := len(r.GetUnread()) < len(old.GetUnread())
		if !IsClosed(old) || !IsClosed(r) || !fewer || !proto.Equal(fixedFields(old), fixedFields(r)) {
			return &ClosedError{r.GetNumber()}
		}
		return writeRecord(tx, r)
	})
}

// fixedFields is a copy of a closed record with the fields alone that CompleteRun must not change.
func fixedFields(r *ecsv1.Run) *ecsv1.Run {
	f := proto.CloneOf(r)
	f.Verdict, f.EventsBuilt, f.Accounts, f.ReportJson = 0, 0, nil, ""
	f.Unread, f.Completed, f.Events, f.VerdictWhy, f.Losses = nil, nil, nil, "", nil
	return f
}

// IsClosed says whether a record has its verdict and its end.
func IsClosed(r *ecsv1.Run) bool {
	return r.GetVerdict() != ecsv1.Verdict_VERDICT_UNSPECIFIED && r.GetStopDone() != nil
}

// Get reads a whole record.
func (s *Store) Get(run uint32) (*ecsv1.Run, error) {
	return viewTx(s, func(tx *bbolt.Tx) (*ecsv1.Run, error) { return s.fullRecord(tx, run) })
}

// Latest reads the whole record of the newest run.
func (s *Store) Latest() (*ecsv1.Run, error) {
	return viewTx(s, func(tx *bbolt.Tx) (*ecsv1.Run, error) { return s.fullRecord(tx, newestRunNumber(tx)) })
}

// newestRunNumber is the number of the newest run in the file; 0 if there is none.
func newestRunNumber(tx *bbolt.Tx) uint32 {
	if key, _ := tx.Bucket(bucketRuns).Cursor().Last(); len(key) == 4 {
		return runNumber(key)
	}
	return 0
}

// LastRunNumber is the number of the newest run; 0 if there is none. It does not read the file, so it may be called
// often.
func (s *Store) LastRunNumber() (uint32, error) {
	if b := s.fileDamage.Load(); b != nil {
		return 0, b
	}
	return s.newestNumber.Load(), nil
}

// List lists the newest runs with numbers below before (0: no bound), at most limit.
func (s *Store) List(before uint32, limit int) (RunList, error) {
	return s.list(before, func(l *RunList, r *ecsv1.Run) bool {
		if len(l.Runs) >= limit {
			l.HasOlder = true
			return false
		}
		l.Runs = append(l.Runs, r)
		return true
	})
}

// OpenRuns lists the runs that are not closed: a control that was killed leaves them.
func (s *Store) OpenRuns() (RunList, error) {
	return s.list(0, func(l *RunList, r *ecsv1.Run) bool {
		if !IsClosed(r) {
			l.Runs = append(l.Runs, r)
		}
		return true
	})
}

// list calls take with the runs below before, newest first, until take returns false.
func (s *Store) list(before uint32, take func(*RunList, *ecsv1.Run) bool) (RunList, error) {
	return viewTx(s, func(tx *bbolt.Tx) (l RunList, err error) {
		c := tx.Bucket(bucketRuns).Cursor()
		key, v := c.Last()
		if before > 0 && len(key) == 4 && runNumber(key) >= before {
			c.Seek(runKey(before))
			key, v = c.Prev()
		}
		for ; key != nil; key, v = c.Prev() {
			r, damaged := s.readSummary(key, v)
			if damaged != nil {
				l.Damaged = append(l.Damaged, damaged)
			} else if !take(&l, r) {
				break
			}
		}
		return l, nil
	})
}

// writeRecord writes the two values of a record: summary and details.
func writeRecord(tx *bbolt.Tx, r *ecsv1.Run) error {
	summary := proto.CloneOf(r)
	details := &ecsv1.Run{
		Configuration: summary.Configuration,
		Versions:      summary.Versions,
		Roles:         summary.Roles,
		Accounts:      summary.Accounts,
		ReportJson:    summary.ReportJson,
	}
	summary.Configuration, summary.Versions, summary.Accounts, summary.ReportJson, summary.Events = "", nil, nil, "", nil
	summary.Roles = nil

	key := runKey(r.GetNumber())
	s, err := encode(kindSummary, key, summary)
	if err != nil {
		return err
	}
	d, err := encode(kindDetails, key, details)
	if err != nil {
		return err
	}
	if err := tx.Bucket(bucketRuns).Put(key, s); err != nil {
		return err
	}
	return tx.Bucket(bucketDetails).Put(key, d)
}

func (s *Store) findSummary(tx *bbolt.Tx, run uint32) (*ecsv1.Run, error) {
	key := runKey(run)
	v := tx.Bucket(bucketRuns).Get(key)
	if v == nil || run == 0 {
		return nil, &NoRunError{run}
	}
	r, damaged := s.readSummary(key, v)
	if damaged != nil {
		return nil, damaged
	}
	return r, nil
}

func (s *Store) readSummary(key, v []byte) (*ecsv1.Run, *DamagedError) {
	r := &ecsv1.Run{}
	if len(key) != 4 {
		return nil, s.logDamaged(&DamagedError{s.path, fmt.Sprintf("the key %x of a run", key), "it has not 4 bytes"})
	}
	if err := decode(kindSummary, key, v, r); err != nil {
		return nil, s.logDamaged(&DamagedError{s.path, fmt.Sprintf("the summary of run %d", runNumber(key)), err.Error()})
	}
	return r, nil
}

// addDetails adds the details of a record to its summary.
func (s *Store) addDetails(tx *bbolt.Tx, r *ecsv1.Run) error {
	key, d := runKey(r.GetNumber()), &ecsv1.Run{}
	if err := decode(kindDetails, key, tx.Bucket(bucketDetails).Get(key), d); err != nil {
		return s.logDamaged(&DamagedError{s.path, fmt.Sprintf("the details of run %d", r.GetNumber()), err.Error()})
	}
	proto.Merge(r, d)
	return nil
}

func (s *Store) fullRecord(tx *bbolt.Tx, run uint32) (*ecsv1.Run, error) {
	r, err := s.findSummary(tx, run)
	if err != nil {
		return nil, err
	}
	if err := s.addDetails(tx, r); err != nil {
		return nil, err
	}
	r.Events = s.readEvents(tx, r)
	return r, nil
}
