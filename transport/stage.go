package transport

// Stage is a place that a remote write over datagrams passes (SCI-bridge §IV). A stage is told when it is over; of a
// batch or a read of several datagrams all are told.
type Stage uint8

// NumStages, in the order in which a write passes them. The first four and the last are the writer's.
const (
	StageQueued           Stage = iota // the request is in the link's queue
	StageDatagramBuilt                 // a datagram has been cut from what is queued
	StageSealed                        // the batch is encrypted
	StageSent                          // the system call has returned
	StageReceived                      // the receiver has a read in hand
	StageOpened                        // a datagram is decrypted, and authentic
	StagePlaced                        // all of the read is in place; who owns the memory is told next
	StageReceiverNotified              // the receiver's handler is being told of it
	StageWriterNotified                // the writer's handler is being told of the outcome

	NumStages = iota // how many there are
)
