package part

import "ringlet/sim"

// Processor does one job after the other: a core that handles messages, a DMA engine, a disk.
type Processor struct {
	s          *sim.Sim
	PerMessage sim.Time
	PerByte    sim.Time // picoseconds a byte
	jobs       *Queue[job]
	Busy       sim.Level     // 1 while it works
	Wait       sim.Histogram // from Do to the beginning of the job, in picoseconds
	Done       uint64
}

type job struct {
	came, cost sim.Time
	h          sim.Handler
	a, b       int64
}

// NewProcessor makes an idle one, with room for limit jobs: the one in work and those that wait. 0 is no limit.
func NewProcessor(s *sim.Sim, perMessage, perByte sim.Time, limit int) *Processor {
	return &Processor{
		s:          s,
		PerMessage: perMessage,
		PerByte:    perByte,
		jobs:       NewQueue[job](s, limit),
	}
}

// Do queues a message of so many bytes; h is called when it is done. It reports false if the queue is full.
func (p *Processor) Do(bytes int, h sim.Handler, a, b int64) bool {
	cost := p.PerMessage + sim.Time(bytes)*p.PerByte
	if !p.jobs.Put(job{
		came: p.s.Now(),
		cost: cost,
		h:    h,
		a:    a,
		b:    b,
	}) {
		return false
	}
	if p.jobs.Len() == 1 {
		p.start()
	}
	return true
}

// Jobs are the messages in work and waiting.
func (p *Processor) Jobs() *sim.Level { return &p.jobs.Length }

// Refused are the messages that found the queue full.
func (p *Processor) Refused() uint64 { return p.jobs.Refused }

func (p *Processor) start() {
	j := p.jobs.First()
	p.Wait.Add(int64(p.s.Now() - j.came))
	p.Busy.Set(p.s.Now(), 1)
	p.s.After(j.cost, (*jobEnd)(p), 0, 0)
}

type jobEnd Processor

func (e *jobEnd) Handle(int64, int64) {
	p := (*Processor)(e)
	j := p.jobs.Get()
	p.Done++
	p.Busy.Set(p.s.Now(), 0)
	if p.jobs.Len() > 0 {
		p.start()
	}
	j.h.Handle(j.a, j.b)
}
