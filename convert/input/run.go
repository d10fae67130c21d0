package input

import (
	"context"
	"fmt"

	"ringlet/event"
	"ringlet/recording"
)

// eachMEP passes on the rows of a recording, in the order of MEPs.
func (in *Inputs) eachMEP(ctx context.Context, from Position, u *unfolder) error {
	this := &in.list[from.File]
	c := this.contents
	if c == nil {
		var print printed
		var err error
		if c, print, err = openRun(ctx, this.path); err != nil {
			return err
		} else if print.text != this.print {
			return fmt.Errorf("%s has changed since the conversion began: give the same command again", this.path)
		}
	}
	if from.MEP == 0 {
		if err := problems(c, u.to); err != nil {
			return err
		}
	}
	u.run = c.Manifest.Run
	return c.EachInOrder(ctx, from.MEP, func(p *recording.RecordedMEP) error {
		u.file = p.File
		err := p.Err
		if err != nil {
			err = u.to.Bad(&BadError{
				File:   p.File,
				Record: int64(p.MEP),
				Offset: p.Offset,
				Err:    err,
			})
		} else {
			err = u.unfoldMEP(p)
		}
		if err != nil {
			return err
		}
		return u.to.Done(Position{File: from.File, MEP: p.MEP + 1, Event: from.Event}, p.Length)
	})
}

// problems reports the problems of a recording's files, except those that a killed writer leaves: open and unlisted
// segments.
func problems(c *recording.Contents, to Consumer) error {
	for p := range c.AllProblems {
		if p.Kind == recording.LeftOpen || p.Kind == recording.Unlisted {
			continue
		}
		err := to.Bad(&BadError{
			File:   c.Dir,
			Record: event.NoRecord,
			Offset: -1,
			Err:    p,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// unfoldMEP passes on the rows of one MEP of a recording.
func (u *unfolder) unfoldMEP(p *recording.RecordedMEP) error {
	record := int64(p.MEP)
	switch p.Format {
	case recording.FormatMEP:
		m, err := event.ParseMEP(p.Data)
		if err != nil {
			return u.bad(err, record, p.Offset)
		}
		return u.mep(m, record, p.Offset)
	case recording.FormatMFP:
		u.mfps = u.mfps[:0]
		for at := 0; at < len(p.Data); {
			f, err := event.ParseMFP(p.Data[at:])
			if err != nil {
				return u.bad(err, record, p.Offset+int64(at))
			}
			if len(u.mfps) > 0 && (f.NumFragments() != u.mfps[0].NumFragments() || f.FirstEvent() != u.mfps[0].FirstEvent()) {
				return u.bad(&event.FormatError{
					Format: event.FormatMFP,
					Field:  "event range",
					Reason: "it is not of the events of the first MFP of its MEP",
					Err:    event.ErrOrder,
				}, record, p.Offset+int64(at))
			}
			u.mfps = append(u.mfps, f)
			at += len(f.Bytes())
		}
		return u.packets(record, p.Offset)
	default:
		return u.records(p)
	}
}

// records passes on the banks of the MDF records of a MEP. It leaves out a bad record; the others keep their event
// numbers.
func (u *unfolder) records(p *recording.RecordedMEP) error {
	records := event.NewMDFCursor(p.Data, true)
	for at, n := int64(0), uint64(0); at < p.Length; n++ {
		r, err := records.Next()
		if err == nil {
			if err := u.record(r, p.FirstEvent+n); err != nil {
				return err
			}
			at += int64(len(r))
			continue
		}
		if err := u.bad(err, int64(p.MEP), p.Offset); err != nil {
			return err
		}
		at += records.Skip()
	}
	return nil
}
