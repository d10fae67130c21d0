package transport

// sendBurst is how many datagrams a plain connection is given at a time, and recvBurst how many are taken off it.
const (
	sendBurst = 16
	recvBurst = 16
)

// plainConn makes a directConn of a connection that carries one datagram at a time, sealed and opened by itself: it
// keeps what is put until it is flushed, and brings every datagram as one that was opened aside. Flush may wait for
// room, so only the link's pump may call it. Recv brings what comes to the Receiver, all that is at hand at a time,
// until the connection is over.
type plainConn struct {
	Conn
	receiver Receiver // set by Start, before Recv

	// owned by who puts
	buf      []byte // sendBurst datagrams of full size
	lens     [sendBurst]int
	batchLen int
}

func newPlainConn(c Conn) *plainConn {
	return &plainConn{Conn: c, buf: make([]byte, sendBurst*c.MaxDatagram())}
}

func (c *plainConn) Append(buf []byte, n int, body []byte) (full bool, err error) {
	size := c.MaxDatagram()
	d := c.buf[c.batchLen*size : (c.batchLen+1)*size]
	c.lens[c.batchLen] = copy(d, buf[:n]) + copy(d[n:], body)
	c.batchLen++
	return c.batchLen == sendBurst, nil
}

func (c *plainConn) Flush() error {
	size := c.MaxDatagram()
	for i := range c.batchLen {
		if err := c.Send(c.buf[i*size : i*size+c.lens[i]]); err != nil {
			return err
		}
	}
	c.batchLen = 0
	return nil
}

func (c *plainConn) Start(r Receiver) { c.receiver = r }

func (c *plainConn) Recv([][]byte) (int, error) {
	var batch [recvBurst][]byte
	for {
		n, err := c.Conn.Recv(batch[:])
		if err != nil {
			return 0, err
		}
		if c.receiver == nil || !c.receiver.BeginRead() {
			continue // a datagram here means nothing
		}
		for _, d := range batch[:n] {
			c.receiver.Receive(d)
		}
		c.receiver.EndRead()
	}
}
