package transport

// sendBurst is how many datagrams plainConn collects before Flush, and recvBurst how many it receives at once.
const (
	sendBurst = 16
	recvBurst = 16
)

// plainConn makes a directConn of a Conn that carries, encrypts and decrypts one datagram at a time. It copies appended
// datagrams and sends them at Flush; each arriving datagram goes to Receiver.Receive. Flush may wait for the carrier's
// queue, so only the link's pump may call it. Recv hands all that has arrived to the Receiver, until the connection
// ends.
type plainConn struct {
	Conn
	receiver Receiver // set by Start, before Recv

	// owned by the caller of Append and Flush
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
			continue // no link is there, or it is over
		}
		for _, d := range batch[:n] {
			c.receiver.Receive(d)
		}
		c.receiver.EndRead()
	}
}
