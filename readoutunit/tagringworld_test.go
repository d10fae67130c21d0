package readoutunit

import (
	"fmt"
	"slices"
	"strings"

	"ringlet/event/placing"
	"ringlet/tagnet"
	tagcore "ringlet/tagnet/core"
)

// tagRingWorld is a whole tag ring: the scheduler's core, the cores of all readout units, and what is on its way
// between them. Builder units grant what all have announced and tell what is whole. Nothing happens by itself: a test
// says what happens next.
type tagRingWorld struct {
	t     failer
	size  func(ru int, mep uint64) float64 // of a part, 1 for an ordinary one; nil if all are
	cfg   tagcore.Config
	core  *tagcore.Allocator
	rus   []*Transfers
	batch tagcore.Batch
	tags  []tagcore.Tag

	tokens    [][]tagnet.Tokens // to each readout unit
	passing   [][]tagcore.Tag   // to each readout unit from the one before, and behind the last to the scheduler
	grants    []grantTo
	writes    []ringWrite
	meps      map[uint64]*building // by place
	complete  []uint64             // places whose feedback is on its way
	reported  []int                // exclusions that each readout unit has
	running   map[int]tagcore.Tag  // by group: the tag under way, as it set out
	history   []string             // what was reported to the scheduler, in order
	lost      []bool               // builder units
	gone      []bool               // readout units
	absences  []int                // readout unit of each, in order
	published []int                // absences that were sent to each readout unit
	known     []int                // absences that each readout unit knows
	clearing  []bool               // by readout unit: it is to report when no write is under way
	cleared   [][2]int             // on the way to the scheduler: readout unit, absences
	fresh     []uint64             // places issued since somebody looked
	voided    map[uint64]bool      // places of tokens that were withdrawn
}

// failer is a test, of testing or of rapid.
type failer interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

type grantTo struct {
	ru, bu int
	grant  placing.Grant
	place  uint64
}

type ringWrite struct {
	ru    int
	place uint64
}

// building is a MEP at its builder unit.
type building struct {
	tagcore.Token
	announced, placed map[int]bool
	granted, whole    bool
}

// newTagRingWorld makes a tag ring. Of the configuration, what makes it one need not be given.
func newTagRingWorld(t failer, cfg tagcore.Config) *tagRingWorld {
	cfg.TagRing, cfg.Loose, cfg.Packing = true, true, 1
	core, err := tagcore.NewAllocator(cfg)
	if err != nil {
		t.Fatal(err)
	}
	core.Start()
	n := len(cfg.RUs)
	w := &tagRingWorld{
		t:         t,
		cfg:       cfg,
		core:      core,
		tokens:    make([][]tagnet.Tokens, n),
		passing:   make([][]tagcore.Tag, n+1),
		meps:      map[uint64]*building{},
		reported:  make([]int, n),
		running:   map[int]tagcore.Tag{},
		gone:      make([]bool, n),
		published: make([]int, n),
		known:     make([]int, n),
		clearing:  make([]bool, n),
		lost:      make([]bool, len(cfg.BUs)),
		voided:    map[uint64]bool{},
	}
	for ru := range n {
		w.rus = append(w.rus, openTagRing(ru, len(cfg.BUs), cfg.Slots, cfg.BypassBusyRUs))
	}
	return w
}

// length of a part in bytes.
func (w *tagRingWorld) length(ru int, mep uint64) uint32 {
	if w.size == nil {
		return 4
	}
	return uint32(4 * w.size(ru, mep))
}

// group of a builder unit.
func (w *tagRingWorld) group(bu int) int {
	for g, members := range w.cfg.Rules.Groups {
		if slices.Contains(members, bu) {
			return g
		}
	}
	return bu
}

func (w *tagRingWorld) bu(place uint64) int { return int(place % uint64(len(w.cfg.BUs))) }

// read lets all readout units hold MEPs up to a number, the last if it is the end.
func (w *tagRingWorld) read(to uint64, end bool) {
	for ru := range w.rus {
		if err := w.core.ApplyUpdate(ru, tagcore.Update{ReadBelow: to, Events: to, InputEnded: end}); err != nil {
			w.t.Fatal(err)
		}
	}
	w.issue()
}

// issue lets the scheduler issue and launch, and sends what comes of it.
func (w *tagRingWorld) issue() {
	w.batch.Reset(w.core.NextCycle(), w.core.PlacesPerCycle())
	w.core.Issue(&w.batch)
	w.tags = w.core.LaunchTags(w.tags[:0])
	for _, t := range w.tags {
		group := w.group(w.bu(t.TokenPlace))
		if x, is := w.running[group]; is && (x.TokenPlace != t.TokenPlace || t.Loop == 0 && x.Generation == t.Generation) {
			w.t.Fatalf("the tag of place %d sets out while the one of place %d is under way in group %d", t.TokenPlace,
				x.TokenPlace, group)
		}
		w.running[group] = t
	}
	for i := range w.batch.Len() {
		for bu := range w.batch.PlacesPerCycle {
			if t, ok := w.batch.Token(i, bu); ok {
				place := (w.batch.FirstCycle+uint64(i))*uint64(w.batch.PlacesPerCycle) + uint64(bu)
				w.fresh = append(w.fresh, place)
				w.meps[place] = &building{Token: t, announced: map[int]bool{}, placed: map[int]bool{}}
			}
		}
	}
	withdrawn := w.core.Withdrawals()
	for ru := range w.rus {
		if w.gone[ru] {
			continue
		}
		m := tagnet.Tokens{
			Batch: tagcore.Batch{
				FirstCycle:     w.batch.FirstCycle,
				PlacesPerCycle: w.batch.PlacesPerCycle,
				MEPs:           slices.Clone(w.batch.MEPs),
				Slots:          slices.Clone(w.batch.Slots),
			},
			Withdrawals: withdrawn[w.reported[ru]:],
		}
		for _, gone := range w.absences[w.published[ru]:] {
			m.Absences = append(m.Absences, tagcore.Absence{RU: uint16(gone)})
		}
		w.published[ru] = len(w.absences)
		if ru == slices.Index(w.gone, false) {
			m.Tags = slices.Clone(w.tags)
		}
		if len(m.Absences) > 0 || m.Len() > 0 || len(m.Tags) > 0 || len(m.Withdrawals) > 0 {
			w.tokens[ru] = append(w.tokens[ru], m)
		}
		w.reported[ru] = len(withdrawn)
	}
}

// deliverTokens gives a readout unit the next message of the scheduler. What it announces is granted when all have
// announced.
func (w *tagRingWorld) deliverTokens(ru int) error {
	m := w.tokens[ru][0]
	w.tokens[ru] = w.tokens[ru][1:]
	r := w.rus[ru]
	for _, x := range m.Withdrawals {
		r.Withdraw(x)
	}
	for range m.Absences {
		w.known[ru]++
		w.clearing[ru] = true
		r.TagOrder().ChangeRing(uint16(w.known[ru]))
	}
	w.clear(ru)
	for i := range m.Len() {
		if err := r.AddCycle(&m.Batch, i); err != nil {
			return err
		}
		for bu := range m.PlacesPerCycle {
			place := (m.FirstCycle+uint64(i))*uint64(m.PlacesPerCycle) + uint64(bu)
			if _, ok := m.Token(i, bu); ok && !r.isWithdrawn(m.FirstCycle+uint64(i), bu) {
				w.announce(ru, place)
			}
		}
	}
	for i := range m.Tags {
		if err := r.TagOrder().AddTag(&m.Tags[i]); err != nil {
			return err
		}
	}
	w.forward(ru)
	return nil
}

func (w *tagRingWorld) announce(ru int, place uint64) {
	b := w.meps[place]
	b.announced[ru] = true
	w.grant(place, b)
}

// grant grants windows for a MEP that all have announced.
func (w *tagRingWorld) grant(place uint64, b *building) {
	if b.granted || !w.holdsAll(b.announced) || w.lost[b.BU] || w.voided[place] {
		return
	}
	b.granted = true
	for to := range w.rus {
		if w.gone[to] {
			continue
		}
		w.grants = append(w.grants, grantTo{
			ru:    to,
			bu:    int(b.BU),
			place: place,
			grant: placing.Grant{
				Slot:    b.Slot,
				Attempt: uint32(b.Attempt),
				MEP:     b.MEP,
				Window:  b.Slot,
				Length:  w.length(to, b.MEP),
			},
		})
	}
}

// forward sends the tags that a readout unit is done with, and tells which.
func (w *tagRingWorld) forward(ru int) (tags []tagcore.Tag) {
	w.clear(ru)
	for {
		t, ok := w.rus[ru].TagOrder().NextForward()
		if !ok {
			return tags
		}
		if to := w.next(ru); to == len(w.rus) || !w.gone[to] {
			w.passing[to] = append(w.passing[to], t)
		}
		tags = append(tags, t)
	}
}

// deliverGrant gives a readout unit a window. One for what was withdrawn meanwhile is counted as too late, and nothing
// else.
func (w *tagRingWorld) deliverGrant(i int) {
	g := w.grants[i]
	w.grants = slices.Delete(w.grants, i, i+1)
	r := w.rus[g.ru]
	before := r.WithdrawalStats.LateGrants
	err := r.ApplyGrant(g.bu, &g.grant)
	if late := r.WithdrawalStats.LateGrants > before; err != nil ||
		late != r.isWithdrawn(g.place/uint64(len(w.cfg.BUs)), g.bu) {
		w.t.Fatalf("ru%d, grant of bu%d for place %d: %v", g.ru, g.bu, g.place, err)
	}
	w.forward(g.ru)
}

// send begins the write that is a readout unit's next action, if it is one.
func (w *tagRingWorld) send(ru int) (uint64, bool) {
	action, place := w.rus[ru].Next()
	if action != Send {
		return 0, false
	}
	for _, x := range w.writes {
		if w.group(w.bu(x.place)) == w.group(w.bu(place)) && !w.voided[x.place] {
			w.t.Fatalf("ru%d begins to send to bu%d while ru%d sends to bu%d", ru, w.bu(place), x.ru, w.bu(x.place))
		}
	}
	w.rus[ru].Serve(place, 1, nil)
	w.writes = append(w.writes, ringWrite{ru, place})
	return place, true
}

// done ends a write.
func (w *tagRingWorld) done(i int) []tagcore.Tag {
	x := w.writes[i]
	w.writes = slices.Delete(w.writes, i, i+1)
	if err := w.rus[x.ru].Complete([]uint64{x.place}); err != nil {
		w.t.Fatal(err)
	}
	b := w.meps[x.place]
	if b.placed[x.ru] {
		w.t.Fatalf("ru%d wrote MEP %d twice to bu%d", x.ru, b.MEP, b.BU)
	}
	b.placed[x.ru] = true
	w.finish(x.place)
	return w.forward(x.ru)
}

// deliverTag gives a readout unit the next tag from the one before.
func (w *tagRingWorld) deliverTag(ru int) (tagcore.Tag, error) {
	t := w.passing[ru][0]
	w.passing[ru] = w.passing[ru][1:]
	err := w.rus[ru].TagOrder().AddTag(&t)
	w.forward(ru)
	return t, err
}

// returnTag gives the scheduler the next tag that has come round.
func (w *tagRingWorld) returnTag() (tagcore.Tag, error) {
	n := len(w.rus)
	t := w.passing[n][0]
	w.passing[n] = w.passing[n][1:]
	w.history = append(w.history, fmt.Sprintf("tag %d", t.TokenPlace))
	before := w.core.Registers().GetCounters().GetTags().GetReturned()
	last := n - 1
	for w.gone[last] {
		last--
	}
	if err := w.core.ReturnTag(last, &t); err != nil {
		return t, err
	}
	if w.core.Registers().GetCounters().GetTags().GetReturned() > before {
		delete(w.running, w.group(w.bu(t.TokenPlace)))
	}
	w.issue()
	return t, nil
}

// reportBuilt gives the scheduler the feedback for a MEP that is whole.
func (w *tagRingWorld) reportBuilt(i int) {
	place := w.complete[i]
	w.complete = slices.Delete(w.complete, i, i+1)
	b := w.meps[place]
	w.history = append(w.history, fmt.Sprintf("built %d", place))
	if err := w.core.ApplyFeedback(int(b.BU), tagcore.Feedback{
		MEP:     b.MEP,
		Slot:    b.Slot,
		Attempt: b.Attempt,
		Events:  1,
		Outcome: tagcore.Built,
	}); err != nil {
		w.t.Fatal(err)
	}
	w.issue()
}

// exclude takes a builder unit away: it grants nothing more, and what it has is given to others.
func (w *tagRingWorld) exclude(bu int) {
	w.history = append(w.history, fmt.Sprintf("without bu%d", bu))
	w.lost[bu] = true
	for place := range w.meps {
		w.voided[place] = w.voided[place] || w.bu(place) == bu
	}
	w.complete = slices.DeleteFunc(w.complete, func(place uint64) bool { return w.bu(place) == bu })
	if _, err := w.core.ExcludeBU(bu, false); err != nil {
		w.t.Fatal(err)
	}
	w.issue()
}

// include takes it back: it has forgotten all it had.
func (w *tagRingWorld) include(bu int) {
	w.history = append(w.history, fmt.Sprintf("with bu%d", bu))
	w.lost[bu] = false
	if err := w.core.IncludeBU(bu); err != nil {
		w.t.Fatal(err)
	}
	w.issue()
}

// steps is everything that can happen next.
func (w *tagRingWorld) steps() (out []func()) {
	for i := range w.cleared {
		out = append(out, func() { w.takeCleared(i) })
	}
	for ru := range w.rus {
		if w.gone[ru] {
			continue
		}
		if len(w.tokens[ru]) > 0 {
			out = append(out, func() { w.must(w.deliverTokens(ru)) })
		}
		if ru > 0 && len(w.passing[ru]) > 0 {
			out = append(out, func() { _, err := w.deliverTag(ru); w.must(err) })
		}
		if action, _ := w.rus[ru].Next(); action == Send {
			out = append(out, func() { w.send(ru) })
		}
	}
	for i, g := range w.grants {
		// A builder unit's grants to one readout unit come in order.
		if !slices.ContainsFunc(w.grants[:i], func(b grantTo) bool { return b.ru == g.ru && b.bu == g.bu }) {
			out = append(out, func() { w.deliverGrant(i) })
		}
	}
	for i := range w.writes {
		out = append(out, func() { w.done(i) })
	}
	if len(w.passing[len(w.rus)]) > 0 {
		out = append(out, func() { _, err := w.returnTag(); w.must(err) })
	}
	for i := range w.complete {
		out = append(out, func() { w.reportBuilt(i) })
	}
	return out
}

func (w *tagRingWorld) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// checkOver holds what must be true when nothing more can happen.
func (w *tagRingWorld) checkOver(meps uint64) {
	w.t.Helper()
	reg := w.core.Registers()
	c := reg.GetCounters()
	if w.core.State() != tagcore.Drained || c.GetBuilt() != meps || c.GetIssued() != meps {
		w.t.Fatalf("stuck: %v\n%s", reg, w.key())
	}
	if g := c.GetTags(); g.GetLaunched() != g.GetReturned() || reg.GetTags().GetNow() != 0 ||
		g.GetLaunched()+g.GetDropped() != c.GetIssued()+c.GetReissued() {
		w.t.Fatalf("tags do not add up: %v", g)
	}
	for ru, r := range w.rus {
		if w.gone[ru] {
			continue
		}
		if action, _ := r.Next(); action != WaitToken || r.OpenTransfers() != 0 || len(r.order.(*tagRing).heldTags) > 0 {
			w.t.Fatalf("ru%d %v, %d transfers open, %d tags", ru, action, r.OpenTransfers(), len(r.order.(*tagRing).heldTags))
		}
	}
	for place, b := range w.meps {
		if !w.voided[place] && (!b.whole || !w.holdsAll(b.placed)) {
			w.t.Fatalf("MEP %d was built of %d parts", b.MEP, len(b.placed))
		}
	}
}

// key is the state: of the readout units whole, of the scheduler by what was reported to it and where its tags are.
func (w *tagRingWorld) key() string {
	var b strings.Builder
	for ru, r := range w.rus {
		tags := r.order.(*tagRing)
		fmt.Fprintln(&b, r.places, r.firstPlace, r.finished, tags.heldTags, tags.nextToServe, r.awaited.count > 0)
		for i := range r.builders {
			fmt.Fprint(&b, r.builders[i].validFromCycle, r.builders[i].lost)
		}
		fmt.Fprintln(&b, w.passing[ru+1], len(w.tokens[ru]))
	}
	grants := slices.Clone(w.grants)
	slices.SortFunc(grants, func(a, b grantTo) int { return a.ru*1000 + int(a.place) - b.ru*1000 - int(b.place) })
	writes := slices.Clone(w.writes)
	slices.SortFunc(writes, func(a, b ringWrite) int { return a.ru*1000 + int(a.place) - b.ru*1000 - int(b.place) })
	history := slices.Clone(w.history)
	if w.cfg.Slots == 1 {
		slices.Sort(history) // of one slot, it does not matter which came free first
	}
	fmt.Fprintln(&b, grants, writes, w.complete, history, w.gone, w.known, w.clearing, w.cleared, w.passing[len(w.rus)])
	return b.String()
}
