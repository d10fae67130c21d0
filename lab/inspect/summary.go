package inspect

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"

	"ringlet/event"
	"ringlet/recording"
)

// sizeStats are a count of things and their sizes in bytes.
type sizeStats struct {
	Count int64   `json:"count"`
	Bytes int64   `json:"bytes"`
	Min   int64   `json:"min"`
	Mean  float64 `json:"mean"`
	Max   int64   `json:"max"`
}

func (s *sizeStats) add(n int) {
	size := int64(n)
	if s.Count == 0 || size < s.Min {
		s.Min = size
	}
	s.Max = max(s.Max, size)
	s.Count++
	s.Bytes += size
	s.Mean = float64(s.Bytes) / float64(s.Count)
}

// idRange is a range of ids seen.
type idRange struct {
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
	seen  bool
}

func (r *idRange) add(first, last uint64) {
	if !r.seen || first < r.First {
		r.First = first
	}
	r.Last = max(r.Last, last)
	r.seen = true
}

// typeSizes are the sizes of one type of bank or fragment.
type typeSizes struct {
	Type    uint8  `json:"type"`
	Name    string `json:"name"`
	Sources int    `json:"sources"`
	sizeStats
}

// report is a summary as printed.
type report struct {
	File      string      `json:"file"`
	Format    Format      `json:"format"`
	Units     sizeStats   `json:"units"`
	MFPs      *sizeStats  `json:"mfps,omitempty"`
	Pieces    sizeStats   `json:"pieces"`
	Types     []typeSizes `json:"types"`
	Sources   int         `json:"sources"`
	Events    int64       `json:"events"`
	EventIDs  *idRange    `json:"event_ids,omitempty"`
	Packing   *idRange    `json:"packing,omitempty"`
	Runs      []uint32    `json:"runs,omitempty"`
	Unsigned  int64       `json:"records_without_checksum"`
	EndOfRuns int64       `json:"end_of_run_packets"`
	GapBytes  int64       `json:"gap_bytes"`
	BadInput  string      `json:"bad_input,omitempty"`

	Opened   *recording.OpenSegment `json:"open_segment,omitempty"`
	Clusters *clusterStats          `json:"vertex_detector,omitempty"`

	pieceNames string
}

// summary is the visitor of ModeSummary. The formats' u8 types and u16 sources bound its maps, whatever the file;
// maxRuns bounds the runs.
type summary struct {
	*unitCounts
	r       report
	types   map[event.BankType]*typeSizes
	sources map[uint32]struct{} // type<<16 | source
	runs    map[uint32]struct{}

	clusters *clusterStats // of a vertex detector, nil before its first board
}

// maxRuns bounds the list of run numbers, if the file is damaged.
const maxRuns = 1000

func newSummary(c *unitCounts) *summary {
	s := &summary{
		unitCounts: c,
		types:      map[event.BankType]*typeSizes{},
		sources:    map[uint32]struct{}{},
		runs:       map[uint32]struct{}{},
	}
	s.r = report{File: c.path, Format: c.format, pieceNames: "fragments"}
	switch c.format {
	case FormatMDF:
		s.r.pieceNames = "banks"
	case FormatMEP:
		s.r.MFPs = &sizeStats{}
	}
	if c.format != FormatMDF {
		s.r.EventIDs, s.r.Packing = &idRange{}, &idRange{}
	}
	return s
}

func (s *summary) visit(u *unit) error {
	s.r.Units.add(u.size())
	switch s.format {
	case FormatMDF:
		s.record(u)
	case FormatMEP:
		s.mep(u)
	default:
		s.mfp(u.mfp)
		s.r.Events += int64(u.mfp.NumFragments())
	}
	if s.clusters != nil {
		s.clusters.endUnit(s.format != FormatMFP)
	}
	return nil
}

// record adds a record. Banks behind a bad one are not counted.
func (s *summary) record(u *unit) {
	s.r.Events++
	if u.record.StoredChecksum() == 0 {
		s.r.Unsigned++
	}
	if len(s.runs) < maxRuns {
		s.runs[u.record.Run()] = struct{}{}
	}
	banks, err := u.record.Banks()
	if err == nil {
		for c := event.JoinBanks(banks); c.Next(); {
			f := c.Fragment()
			s.piece(f.Type, f.Source, len(f.Data))
			s.board(f.Type, f.Version, uint64(s.r.Events), f.Data)
		}
		err = u.record.CheckBanks()
	}
	if err != nil {
		s.problem(u.locate(err))
	}
}

func (s *summary) mep(u *unit) {
	used := event.MEPHeaderSize(u.mep.NumMFPs())
	for f, err := range u.mep.MFPs() {
		if err != nil {
			s.problem(u.locate(err))
			return
		}
		used += len(f.Bytes())
		s.r.MFPs.add(len(f.Bytes()))
		s.mfp(f)
	}
	s.r.GapBytes += int64(u.size() - used)
	if u.mep.NumMFPs() > 0 {
		if f, err := u.mep.MFP(0); err == nil {
			s.r.Events += int64(f.NumFragments())
		}
	}
}

func (s *summary) mfp(f event.MFP) {
	if f.IsEndOfRun() {
		s.r.EndOfRuns++
		return
	}
	n := uint64(f.NumFragments())
	s.r.Packing.add(n, n)
	if n > 0 {
		s.r.EventIDs.add(f.FirstEvent(), f.FirstEvent()+n-1)
	}
	for c := f.Cursor(); c.Next(); {
		s.piece(c.Type(), f.Source(), len(c.Data()))
		s.board(c.Type(), f.Version(), c.Event(), c.Data())
	}
}

// board adds a fragment or bank if it is a board of a vertex detector.
func (s *summary) board(t event.BankType, version uint8, ev uint64, data []byte) {
	if !isBoard(t, version) {
		return
	}
	if s.clusters == nil {
		s.clusters = newClusters()
	}
	s.clusters.board(ev, data)
}

func (s *summary) piece(t event.BankType, source uint16, size int) {
	s.r.Pieces.add(size)
	of := s.types[t]
	if of == nil {
		of = &typeSizes{Type: uint8(t), Name: t.String()}
		s.types[t] = of
	}
	of.add(size)
	key := uint32(t)<<16 | uint32(source)
	if _, known := s.sources[key]; !known {
		s.sources[key] = struct{}{}
		of.Sources++
	}
}

func (s *summary) noteBad(err error) bool { s.problem(err); return false }
func (s *summary) noteSkipped(int64)      {}

func (s *summary) finish(out io.Writer, asJSON bool) error {
	for _, t := range slices.Sorted(maps.Keys(s.types)) {
		s.r.Types = append(s.r.Types, *s.types[t])
	}
	distinct := map[uint16]struct{}{}
	for key := range s.sources {
		distinct[uint16(key)] = struct{}{}
	}
	s.r.Sources = len(distinct)
	if s.format == FormatMDF {
		s.r.Runs = slices.Sorted(maps.Keys(s.runs))
	}
	if s.firstProblem != nil {
		s.r.BadInput = s.firstProblem.Error()
	}
	if s.r.Clusters = s.clusters; s.clusters != nil {
		s.clusters.PerBoard.computeMoments()
		s.clusters.PerEvent.computeMoments()
	}
	if asJSON {
		s.r.Opened = s.opened
		return writeJSON(out, s.r)
	}
	return s.r.text(out)
}

func writeJSON(out io.Writer, v any) error {
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// text prints the summary as a table.
func (r *report) text(out io.Writer) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(out, "%s: %s, %d bytes, %d events\n", r.File, r.Format, r.Units.Bytes, r.Events)
	if r.EventIDs != nil && r.EventIDs.seen {
		fmt.Fprintf(out, "event ids %d to %d, packing %d to %d\n", r.EventIDs.First, r.EventIDs.Last, r.Packing.First,
			r.Packing.Last)
	}
	if len(r.Runs) > 0 {
		fmt.Fprintf(out, "runs %v, %d records without checksum\n", r.Runs, r.Unsigned)
	}
	fmt.Fprintf(out, "%d sources, %d end-of-run packets, %d bytes of gaps\n\n", r.Sources, r.EndOfRuns, r.GapBytes)
	row := func(name string, s sizeStats, sources string) {
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%.1f\t%d\t%s\t\n", name, s.Count, s.Bytes, s.Min, s.Mean, s.Max, sources)
	}
	fmt.Fprintln(t, "what\tcount\tbytes\tmin\tmean\tmax\tsources\t")
	row(map[Format]string{FormatMDF: "records", FormatMEP: "MEPs", FormatMFP: "MFPs"}[r.Format], r.Units, "")
	if r.MFPs != nil {
		row("MFPs", *r.MFPs, "")
	}
	row(r.pieceNames, r.Pieces, "")
	for _, of := range r.Types {
		row(fmt.Sprintf("%s (%d)", of.Name, of.Type), of.sizeStats, fmt.Sprint(of.Sources))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if r.Clusters != nil && r.Clusters.Boards > 0 {
		if err := r.Clusters.text(out); err != nil {
			return err
		}
	}
	if r.BadInput != "" {
		fmt.Fprintf(out, "\nfirst problem: %s\n", r.BadInput)
	}
	return nil
}
