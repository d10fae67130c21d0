package shmem

import "context"

// drain waits until every entry committed is acknowledged. In a broadcast buffer that never had
// a reader, and in a sharing buffer without one, that is when ctx is done. Errors as for Reserve.
func (w *Writer) drain(ctx context.Context) error {
	err := w.checkOpen(ctx)
	if err == nil {
		err = w.core.buffer.spaceBell.Await(ctx, 0, w.core.isDrained, w.checkReadersLive)
	}
	return w.fail("drain", err)
}

// isDrained says whether every published entry is acknowledged by all who may not lose.
func (w *writerCore) isDrained() (bool, error) {
	limit, err := w.scanReaders()
	if err == nil && !w.lossyReaders { // else what they have not read would be gone
		err = w.refreshFloor(w.head)
		limit = w.floor
	}
	return err == nil && limit == w.head, err
}
