// Package ring is a ring of records in shared memory: one process, the producer, fills it, another one, the consumer,
// empties it and says back what became of the records. The layout, which other languages write too, is
// docs/format/ring.md; who uses it, and who cannot, is docs/design/002-shared-memory.md.
//
// It stands for the Reader and the Writer of LHCb-EB §III.B: hand out a place in memory, take an acknowledgement. It
// has no I/O but the bells: the memory is a shmem.Segment's, and the shells (source/shmring,
// clients/frontend, filter/external, transport/local) make it, take the locks and wait.
//
// There are two uses of the one layout. A ring of Fragments belongs to a run: its producer may die and be replaced, so
// marks say which event comes next, and the consumer tells what is safe and what was given up. A ring of Messages has
// one producer for good, any numbers, and nothing of that.
//
// # What the caller must do, in order
//
// The consumer makes the ring: Init on zeroed memory, of fragments with the lock of byte ConsumerByte held before
// anybody finds the memory, then OpenConsumer. Next gives records, Done or ReleaseAll give their space back, and Close
// says that nobody reads any more. Of fragments PublishResume tells where a front-end that comes is to go on,
// ReportGivenUp what is in no file, SetSafe what it may forget, and AckEnd that its end was taken. Whoever sleeps until
// something comes calls ArmWake before, or Wait, whose poll calls Next.
//
// A producer of fragments takes the lock of byte ProducerByte, then calls AttachProducer: there is one at a time, and
// after a death the next one finds the number of the next event in Expected, after ResumePublished and Resume. Then
// Reserve and Commit, or Drop; Detach at the end, and EndAcked. One of messages calls OpenProducer, then Allocate and
// Publish.
//
// # What it does not promise
//
// Each side checks what the other one wrote before it uses it, and refuses with a *BrokenError what cannot be. It does
// not check the data of records, nor the order of event numbers. A producer can change what it has committed until
// the consumer has copied it.
package ring
