// Package ring is a ring of records in shared memory: one process, the producer, fills it; another one, the consumer,
// empties it and reports what became of the records. Other languages write the same layout, docs/format/ring.md;
// docs/design/002-shared-memory.md says which parts use it, and which cannot.
//
// It follows the Reader and Writer of LHCb-EB §III.B: hand out a place in memory, take an acknowledgement. Its only I/O
// are the bells: the memory is a shmem.Segment's, and the shells (source/shmring, clients/frontend,
// filter/external, transport/local) make it, take the locks and wait.
//
// The layout has two uses. A ring of Fragments belongs to a run: its producer may die and be replaced, so marks hold
// the number of the next event, and the consumer reports which events are safe and which it has given up. A ring of
// Messages has one producer for good, any numbers, and no such reports.
//
// # What the caller must do, in order
//
// The consumer makes the ring: Init on zeroed memory (of fragments with the lock of ConsumerByte held before another
// process can find the memory), then OpenConsumer. Next returns records, Done or ReleaseAll release their space, and
// Close tells the producer that the consumer reads no more. For fragments, PublishResume says where a new front-end
// goes on, ReportGivenUp which fragments are in no file, SetSafe which ones the front-end may forget, and AckEnd that
// its end was taken. Before sleeping call ArmWake, or use Wait with a poll that calls Next.
//
// A producer of fragments takes the lock of ProducerByte, then calls AttachProducer: there is one at a time. After a
// death the next one calls ResumePublished and Resume, and finds the number of the next event in Expected. Then come
// Reserve and Commit, or Drop; Detach at the end, and EndAcked. A producer of messages calls OpenProducer, then
// Allocate and Publish.
//
// # What it does not promise
//
// Each side checks the other's values before it uses them, and returns a *BrokenError for an impossible one. It checks
// neither the data of records nor the order of event numbers. A producer can change a committed record until the
// consumer has copied it.
package ring
