package transport

// Stage is a point on the way of a remote write over datagrams (SCI-bridge §IV), reported when the write has passed it.
// The stages of a batch or a read come once for all its datagrams, the others for each datagram or write.
type Stage uint8

// Stages in the order in which a write passes them. The writer's process reports the first four and the last.
const (
	StageQueued           Stage = iota // the request is in the link's queue
	StageDatagramBuilt                 // the core has built a datagram of queued requests
	StageSealed                        // the batch is encrypted
	StageSent                          // the system call has returned
	StageReceived                      // the receiver's read has returned
	StageOpened                        // a datagram is decrypted, and authentic
	StagePlaced                        // all datagrams of the read are in place; the receiver's handler is called next
	StageReceiverNotified              // the receiver's handler is about to be called
	StageWriterNotified                // the writer's handler is about to be called with the outcome

	NumStages = iota
)
