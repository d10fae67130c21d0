package input

import (
	"errors"

	"ringlet/event"
)

// unfolder makes rows from units.
type unfolder struct {
	to    Consumer
	banks bool // unfold containers
	file  string
	run   uint32
	once  *once // nil without Once
	row   Row

	mfps    []event.MFP // reused
	cursors []event.FragmentCursor
}

// bad reports an error of a unit with its file, record and offset.
func (u *unfolder) bad(err error, record, offset int64) error {
	err = event.LocateError(err, record, offset)
	at := offset
	var fe *event.FormatError
	if errors.As(err, &fe) {
		at = fe.Offset
	}
	return u.to.Bad(&BadError{
		File:   u.file,
		Record: record,
		Offset: at,
		Err:    err,
	})
}

// record passes on the banks of a record that was verified.
func (u *unfolder) record(r event.Record, number uint64) error {
	h := r.HeaderFields()
	run := h.Run
	if run == 0 {
		run = u.run
	}
	banks, err := r.Banks()
	if err != nil {
		return err
	}
	c := event.JoinBanks(banks)
	for c.Next() {
		f := c.Fragment()
		u.row = Row{
			Run:     run,
			Event:   number,
			Orbit:   h.Orbit,
			Bunch:   h.Bunch,
			Source:  f.Source,
			Type:    f.Type,
			Version: f.Version,
			Data:    f.Data,
		}
		if again, err := u.again(); err != nil {
			return err
		} else if again {
			continue
		}
		if err := u.to.Row(&u.row); err != nil {
			return err
		}
	}
	return c.Err()
}

// mep passes on the fragments of a MEP, event by event. record and offset are for errors.
func (u *unfolder) mep(m event.MEP, record, offset int64) error {
	if err := m.Verify(); err != nil {
		return u.bad(err, record, offset)
	}
	u.mfps = u.mfps[:0]
	for p, err := range m.MFPs() {
		if err != nil {
			return u.bad(err, record, offset)
		}
		u.mfps = append(u.mfps, p)
	}
	return u.packets(record, offset)
}

// packets passes on the fragments of u.mfps, event by event. All the MFPs must hold the same events.
func (u *unfolder) packets(record, offset int64) error {
	u.cursors = u.cursors[:0]
	for _, p := range u.mfps {
		u.cursors = append(u.cursors, p.Cursor())
	}
	for n := 0; len(u.mfps) > 0 && n < u.mfps[0].NumFragments(); n++ {
		for i := range u.cursors {
			c, p := &u.cursors[i], &u.mfps[i]
			c.Next()
			u.row = Row{
				Run:     u.run,
				Event:   c.Event(),
				Source:  p.Source(),
				Type:    c.Type(),
				Version: p.Version(),
				Data:    c.Data(),
				Words:   p.Words(c.Index()),
			}
			if err := u.fragment(record, offset); err != nil {
				return err
			}
		}
	}
	return nil
}

// again says whether an earlier input has the fragment of u.row; the caller then leaves it out.
func (u *unfolder) again() (bool, error) {
	if u.once == nil {
		return false, nil
	}
	again, err := u.once.record(u.row.Source, u.row.Event, u.row.Missing())
	if again {
		u.to.Dropped(u.row.Source)
	}
	return again, err
}

// fragment passes on u.row, or the banks in it.
func (u *unfolder) fragment(record, offset int64) error {
	if again, err := u.again(); again || err != nil {
		return err
	}
	if !u.banks || u.row.Type != event.FragmentContainer {
		return u.to.Row(&u.row)
	}
	saved := u.row
	check := event.JoinBanks(event.NewBankCursor(saved.Data))
	for check.Next() {
	}
	if err := check.Err(); err != nil {
		if err := u.bad(err, record, offset); err != nil {
			return err
		}
		return u.to.Row(&u.row) // the whole container, so that no data is lost
	}
	for c := event.JoinBanks(event.NewBankCursor(saved.Data)); c.Next(); {
		f := c.Fragment()
		u.row.Source, u.row.Type, u.row.Version, u.row.Data = f.Source, f.Type, f.Version, f.Data
		if err := u.to.Row(&u.row); err != nil {
			return err
		}
	}
	return nil
}
