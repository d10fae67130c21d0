// Package fragring is a ring of fragments in shared memory: one front-end's process fills it, one readout unit empties
// it. The layout, which other languages write too, is docs/format/ring.md.
//
// It stands for the Reader and the Writer of LHCb-EB §III.B: hand out a place in memory, take an acknowledgement. It
// has no I/O: the memory is a shmem.Segment's, and the two shells (readoutunit/source/shmring, clients/frontend) make
// it, take the locks and wait.
//
// # What the caller must do, in order
//
// The consumer makes the ring: Init on zeroed memory, with the lock of byte ConsumerByte held before anybody finds the
// memory, then OpenConsumer. Next gives fragments, Done gives their space back, PublishResume tells where a front-end
// that comes is to go on, ReportGivenUp what is in no file, SetSafe what it may forget, AckEnd that its end was taken,
// and Close that nobody reads any more.
//
// A producer takes the lock of byte ProducerByte, then calls AttachProducer: there is one at a time, and after a death
// the next one finds the number of the next event in Expected, after ResumePublished and Resume. Then Reserve and
// Commit, or Drop; Detach at the end, and EndAcked.
//
// # What it does not promise
//
// Each side checks what the other one wrote before it uses it, and refuses with a *BrokenError what cannot be. It does
// not check the data of fragments, nor the order of event numbers. A producer can change what it has committed until
// the consumer has copied it.
package fragring
