package ring

import (
	"errors"
	"os"

	"ringlet/shmem"
)

// Create makes a named ring with capacity bytes of records, and opens its reading end. It locks ConsumerByte before
// another process can find the ring. Errors are those of shmem.Create and Init.
func Create(name string, capacity int, s Settings, opts ...shmem.Option) (*shmem.Segment, *Consumer, error) {
	s.PID = uint32(os.Getpid())
	seg, err := shmem.CreateWith(name, HeaderSize+capacity, func(seg *shmem.Segment) error {
		_, err := seg.ClaimByte(ConsumerByte)
		return errors.Join(err, Init(seg.Bytes(), s))
	}, opts...)
	if err != nil {
		return nil, nil, err
	}
	c, err := OpenConsumer(name, seg.Bytes(), s.Use)
	if err != nil {
		return nil, nil, errors.Join(err, seg.Close())
	}
	return seg, c, nil
}
