package simnet_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"ringlet/testkit/patiently"
	"ringlet/transport"
	"ringlet/transport/simnet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// joinNodes makes two nodes, a and b, and a connection between them.
func joinNodes(t *testing.T, f simnet.Faults) (*simnet.Fabric, [2]*simnet.Network, [2]transport.Conn) {
	t.Helper()
	fabric := simnet.NewFabric(f, 4)
	var nets [2]*simnet.Network
	for i, name := range []string{"a", "b"} {
		n, err := fabric.Node(name)
		if err != nil {
			t.Fatal(err)
		}
		nets[i] = n
		t.Cleanup(func() { _ = n.Close() })
	}
	accepted := make(chan transport.Conn, 1)
	go func() {
		in, err := nets[1].Accept(context.Background())
		if err != nil {
			t.Error(err)
			return
		}
		if in.Peer() != "a" || string(in.Hello()) != "hello" {
			t.Errorf("%q says %q", in.Peer(), in.Hello())
		}
		c, err := in.Answer([]byte("answer"))
		if err != nil {
			t.Error(err)
		}
		accepted <- c
	}()
	c, answer, err := nets[0].Dial(context.Background(), "b", "b", []byte("hello"))
	if err != nil || string(answer) != "answer" {
		t.Fatalf("answer %q, %v", answer, err)
	}
	return fabric, nets, [2]transport.Conn{c, patiently.Receive(t, accepted)}
}

func TestDatagramsArriveAfterTheirDelayInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, c := joinNodes(t, simnet.Faults{Delay: 3 * time.Millisecond})
		begin := time.Now()
		for i := range 10 {
			if err := c[0].Send(fmt.Append(nil, "datagram ", i)); err != nil {
				t.Fatal(err)
			}
		}
		batch := make([][]byte, 4)
		for got := 0; got < 10; {
			n, err := c[1].Recv(batch)
			if err != nil || n == 0 {
				t.Fatal(n, err)
			}
			for _, d := range batch[:n] {
				if string(d) != fmt.Sprint("datagram ", got) {
					t.Errorf("datagram %d is %q", got, d)
				}
				got++
			}
		}
		if took := time.Since(begin); took != 3*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		if err := c[0].Send(make([]byte, c[0].MaxDatagram()+1)); err == nil {
			t.Error("a datagram that is too long was taken")
		}
	})
}

func TestFaultsAreAsAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, c := joinNodes(t, simnet.Faults{Loss: 0.2, Duplicate: 0.1})
		got := 0
		for range 100 {
			for range 100 {
				_ = c[0].Send([]byte("x"))
			}
			n, err := c[1].Recv(make([][]byte, 300))
			if err != nil {
				t.Fatal(err)
			}
			got += n
		}
		if got < 8600 || got > 9000 { // 10,000 × 0.8 × 1.1
			t.Errorf("%d received", got)
		}
	})
}

func TestFullQueueDrops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, c := joinNodes(t, simnet.Faults{})
		for range 1000 {
			if err := c[0].Send([]byte("x")); err != nil {
				t.Fatal(err)
			}
		}
		if n, err := c[1].Recv(make([][]byte, 1000)); n != 512 || err != nil {
			t.Errorf("%d received, %v", n, err)
		}
	})
}

func TestCloseIsLearnt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, c := joinNodes(t, simnet.Faults{Delay: time.Millisecond})
		own := make(chan error, 1)
		go func() { _, err := c[0].Recv(make([][]byte, 1)); own <- err }()
		synctest.Wait()
		_ = c[0].Close("enough")
		_ = c[0].Close("again")
		if err := <-own; !errors.Is(err, transport.ErrClosed) {
			t.Errorf("the end that closed: %v", err)
		}
		_, err := c[1].Recv(make([][]byte, 1))
		var closed *simnet.ClosedError
		if !errors.As(err, &closed) || closed.Peer != "a" || closed.Reason != "enough" {
			t.Errorf("its peer: %v", err)
		}
		for _, end := range c {
			if end.Send([]byte("x")) == nil {
				t.Error("sent on a closed connection")
			}
		}
	})
}

func TestPartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fabric, nets, c := joinNodes(t, simnet.Faults{})
		begin := time.Now()
		fabric.Partition("b", "a", true)
		_ = c[0].Send([]byte("lost"))
		if _, err := c[1].Recv(make([][]byte, 1)); !errors.Is(err, simnet.ErrIdle) || time.Since(begin) != 5*time.Second {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
		if _, _, err := nets[0].Dial(context.Background(), "b", "b", nil); !errors.Is(err, simnet.ErrNoAnswer) {
			t.Errorf("dialled across a partition: %v", err)
		}
	})
	synctest.Test(t, func(t *testing.T) { // closed while cut off: learnt when it heals
		fabric, _, c := joinNodes(t, simnet.Faults{})
		fabric.Partition("a", "b", true)
		_ = c[0].Close("while cut off")
		time.Sleep(time.Second)
		fabric.Partition("a", "b", false)
		var closed *simnet.ClosedError
		if _, err := c[1].Recv(make([][]byte, 1)); !errors.As(err, &closed) {
			t.Errorf("learnt %v", err)
		}
	})
}

func TestNodesComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fabric, nets, c := joinNodes(t, simnet.Faults{})
		if _, err := fabric.Node("a"); err == nil {
			t.Error("two nodes of one name")
		}
		waiting := make(chan error, 1)
		go func() { _, err := nets[1].Accept(context.Background()); waiting <- err }()
		synctest.Wait()
		_ = nets[1].Close()
		_ = nets[1].Close()
		if err := <-waiting; !errors.Is(err, transport.ErrClosed) {
			t.Errorf("Accept: %v", err)
		}
		if _, err := c[0].Recv(make([][]byte, 1)); err == nil {
			t.Error("the peer did not learn")
		}
		if _, _, err := nets[0].Dial(context.Background(), "b", "b", nil); !errors.Is(err, simnet.ErrNoAnswer) {
			t.Errorf("dialled a node that is gone: %v", err)
		}
		if _, _, err := nets[1].Dial(context.Background(), "a", "a", nil); !errors.Is(err, transport.ErrClosed) {
			t.Errorf("dialled from a closed node: %v", err)
		}
		again, err := fabric.Node("b")
		if err != nil {
			t.Fatal(err)
		}
		defer again.Close()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		// Nobody accepts: the dialler gives up, and who accepts later finds it gone.
		if _, _, err := nets[0].Dial(ctx, "b", "b", nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("unanswered: %v", err)
		}
		in, err := again.Accept(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := in.Answer(nil); err == nil {
			t.Error("answered a dialler that left")
		}
		in.Refuse(transport.RefuseStranger, "too late")
	})
}
