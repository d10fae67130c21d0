package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"time"

	"ringlet/lab/mem"
	"ringlet/node/config"
)

type memCmd struct {
	Demo    memDemoCmd    `cmd:"" help:"Show everything on this machine: an owner in a process of its own, and two guests."`
	Export  memExportCmd  `cmd:"" help:"Export a segment until a signal comes, for guests on this host and others."`
	Put     memPutCmd     `cmd:"" help:"Write bytes into a segment."`
	Get     memGetCmd     `cmd:"" help:"Read bytes of a segment."`
	Fill    memFillCmd    `cmd:"" help:"Write bytes again and again."`
	Compare memCompareCmd `cmd:"" help:"Read bytes, and compare them with what fill writes."`
	Add     memAddCmd     `cmd:"" help:"Add to a word in one step."`
	Lock    memLockCmd    `cmd:"" help:"Take a lock, which is a word, keep it for a while, and give it back."`
	Watch   memWatchCmd   `cmd:"" help:"Print a word at each notice of its page."`
	Tables  memTablesCmd  `cmd:"" help:"Print the tables of the owner and of a guest."`
	Gateway memGatewayCmd `name:"door" cmd:"" help:"Open a door in shared memory until a signal comes, for programs on this host in C, Python and other languages."`
	Trace   memTraceCmd   `cmd:"" help:"Follow writes from the call to the answer, stage by stage."`
	Packet  memPacketCmd  `cmd:"" help:"Send a message made by hand; print whether the owner refused it, and which counter has it."`
}

// memGuest are the flags of all guests.
type memGuest struct {
	Group string        `default:"ringlet-mem" placeholder:"DIR" help:"Directory of the group, as the owner has it."`
	Time  time.Duration `default:"30s" help:"How long it may take in all."`
}

// withTimeout checks the group's directory, and bounds the time of the guest.
func (c *memGuest) withTimeout(ctx context.Context, to streams) (context.Context, context.CancelFunc) {
	warnOfGroup(to, c.Group)
	return context.WithTimeoutCause(ctx, c.Time, fmt.Errorf("it took longer than --time %v", c.Time))
}

func warnOfGroup(to streams, dir string) {
	if why := mem.Warning(dir); dir != "" && why != "" {
		fmt.Fprintf(to.err, "ringlet: %s\n", why)
	}
}

// runAsGuest calls a function with a guest of the group.
func (c *memGuest) runAsGuest(ctx context.Context, to streams, task func(context.Context, *mem.Guest) error) error {
	ctx, cancel := c.withTimeout(ctx, to)
	defer cancel()
	g, err := mem.Enter(ctx, c.Group, to.out)
	if err != nil {
		return err
	}
	return errors.Join(task(ctx, g), g.Close())
}

// memPlace is a place in a segment.
type memPlace struct {
	Segment string `arg:"" help:"Name of the segment."`
	Offset  int64  `arg:"" help:"Where in it, bytes."`
}

// memData are bytes given on the command line.
type memData struct {
	Data string `arg:"" help:"Bytes, as text."`
	Hex  bool   `help:"The bytes are given as hexadecimal digits."`
}

func (d *memData) bytes() ([]byte, error) {
	if !d.Hex {
		return []byte(d.Data), nil
	}
	b, err := hex.DecodeString(d.Data)
	if err != nil {
		return nil, usage(fmt.Errorf("%q: %w", d.Data, err))
	}
	return b, nil
}

type memDemoCmd struct {
	Group     string `placeholder:"DIR" help:"Directory of the group, which stays; if not given one that is gone afterwards."`
	Carrier   string `default:"quic" help:"As --transport of a run: quic, quic-go, stream, local, auto."`
	Host      string `default:"127.0.0.1" help:"Address of the owner."`
	KeepOwner bool   `name:"stay" help:"Keep the owner for other commands until a signal comes; with --group."`
}

// Run shows everything.
func (c *memDemoCmd) Run(ctx context.Context, to streams) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	if c.KeepOwner && c.Group == "" {
		return usage(errors.New("--stay needs --group, by which other commands find the owner"))
	}
	warnOfGroup(to, c.Group)
	return mem.Demo{
		Group:     c.Group,
		Carrier:   c.Carrier,
		Host:      c.Host,
		Program:   program,
		KeepOwner: c.KeepOwner,
	}.Run(ctx, to.out)
}

type memExportCmd struct {
	Segment string       `arg:"" help:"Name of the segment."`
	Size    config.Bytes `default:"64KiB" help:"Of the segment."`
	Pages   []mem.Pages  `sep:"none" placeholder:"FIRST+COUNT:ALLOWED[:ATTRIBUTE,...]" help:"Pages of 4096 bytes, and what guests may do there: r (read), w (write), l (lock), n (notify); attributes are nwrite, dmove, ordered, combining. Pages that are not named are closed. All are open if not given."`
	Group   string       `default:"ringlet-mem" placeholder:"DIR" help:"Directory of the group; it is made. Guests on other hosts need a copy of it as it is after this start."`
	Carrier string       `default:"quic" help:"As --transport of a run: quic, quic-go, stream, local, auto."`
	Host    string       `default:"127.0.0.1" help:"Address that guests reach."`
}

// Run exports.
func (c *memExportCmd) Run(ctx context.Context, to streams) error {
	warnOfGroup(to, c.Group)
	return mem.Serve(ctx, mem.Owner{
		Group:   c.Group,
		Name:    c.Segment,
		Size:    int(c.Size),
		Pages:   c.Pages,
		Carrier: c.Carrier,
		Host:    c.Host,
	}, to.out)
}

type memPutCmd struct {
	memPlace
	memData
	Notify bool `help:"Notify the page afterwards."`
	memGuest
}

// Run writes.
func (c *memPutCmd) Run(ctx context.Context, to streams) error {
	data, err := c.bytes()
	if err != nil {
		return err
	}
	return c.runAsGuest(ctx, to, func(ctx context.Context, g *mem.Guest) error {
		return g.Put(ctx, c.Segment, c.Offset, data, c.Notify)
	})
}

type memGetCmd struct {
	memPlace
	Count int64 `arg:"" help:"How many bytes."`
	Raw   bool  `help:"Print the bytes as they are, and nothing else."`
	memGuest
}

// Run reads.
func (c *memGetCmd) Run(ctx context.Context, to streams) error {
	return c.runAsGuest(ctx, to, func(ctx context.Context, g *mem.Guest) error {
		return g.Get(ctx, c.Segment, c.Offset, c.Count, c.Raw)
	})
}

type memFillCmd struct {
	memPlace
	Count int64 `arg:"" help:"How many bytes in all."`
	memData
	memGuest
}

// Run fills.
func (c *memFillCmd) Run(ctx context.Context, to streams) error {
	data, err := c.bytes()
	if err != nil {
		return err
	}
	return c.runAsGuest(ctx, to, func(ctx context.Context, g *mem.Guest) error {
		return g.Fill(ctx, c.Segment, c.Offset, c.Count, data)
	})
}

type memCompareCmd struct {
	memPlace
	Count int64 `arg:"" help:"How many bytes in all."`
	memData
	memGuest
}

// Run compares.
func (c *memCompareCmd) Run(ctx context.Context, to streams) error {
	data, err := c.bytes()
	if err != nil {
		return err
	}
	return c.runAsGuest(ctx, to, func(ctx context.Context, g *mem.Guest) error {
		return g.Compare(ctx, c.Segment, c.Offset, c.Count, data)
	})
}

type memAddCmd struct {
	memPlace
	Delta uint64 `arg:"" default:"1" help:"What to add."`
	memGuest
}

// Run adds.
func (c *memAddCmd) Run(ctx context.Context, to streams) error {
	return c.runAsGuest(ctx, to, func(ctx context.Context, g *mem.Guest) error {
		return g.Add(ctx, c.Segment, c.Offset, c.Delta)
	})
}

type memLockCmd struct {
	memPlace
	Hold time.Duration `default:"1s" help:"How long to keep it."`
	memGuest
}

// Run locks.
func (c *memLockCmd) Run(ctx context.Context, to streams) error {
	return c.runAsGuest(ctx, to, func(ctx context.Context, g *mem.Guest) error {
		return g.Lock(ctx, c.Segment, c.Offset, c.Hold)
	})
}

type memWatchCmd struct {
	memPlace
	Notices int `default:"0" help:"End after so many. 0 = end when --time is over."`
	memGuest
}

// Run watches.
func (c *memWatchCmd) Run(ctx context.Context, to streams) error {
	return c.runAsGuest(ctx, to, func(ctx context.Context, g *mem.Guest) error {
		return g.Watch(ctx, c.Segment, c.Offset, c.Notices)
	})
}

type memTablesCmd struct {
	Segment string `arg:"" help:"Name of the segment."`
	memGuest
}

// Run prints both tables.
func (c *memTablesCmd) Run(ctx context.Context, to streams) error {
	return c.runAsGuest(ctx, to, func(ctx context.Context, g *mem.Guest) error { return g.Tables(ctx, c.Segment) })
}

type memTraceCmd struct {
	memPlace
	Size   config.Bytes `default:"64B" help:"Of a write, at most 1KiB. The bytes there are overwritten with zeros."`
	Writes int          `default:"100" help:"How many, one at a time."`
	memGuest
}

// Run follows.
func (c *memTraceCmd) Run(ctx context.Context, to streams) error {
	if c.Size < 1 || c.Size > mem.MaxTracedWrite || c.Writes < 1 {
		return usage(fmt.Errorf("--size %v --writes %d: give a size of 1 B to %v, which fits a datagram, and 1 write or more",
			c.Size, c.Writes, config.Bytes(mem.MaxTracedWrite)))
	}
	return c.runAsGuest(ctx, to, func(ctx context.Context, g *mem.Guest) error {
		return g.Trace(ctx, c.Segment, c.Offset, make([]byte, c.Size), c.Writes)
	})
}

type memPacketCmd struct {
	Segment    string  `arg:"" help:"Name of the segment, which is imported for it."`
	Kind       string  `arg:"" enum:"find,leave,load,read,add,swap,compare,notify,wait,cancel,revoked,answer,write,bytes,datagram" help:"A kind of message: find, leave, load, read, add, swap, compare, notify, wait, cancel, revoked, answer; write, a remote write; bytes, a message as it is; datagram, one of nobody to the owner's socket."`
	Data       string  `arg:"" optional:"" help:"Body of the message, bytes of the write, or all of it, as text."`
	Hex        bool    `help:"The bytes are given as hexadecimal digits."`
	Window     *uint32 `help:"Window that it names; the first that is granted here if not given."`
	Generation *uint32 `help:"Generation of the window; the granted one if not given."`
	Offset     uint64  `help:"Offset in the window."`
	Count      uint32  `default:"8" help:"How many bytes are asked for."`
	A          uint64  `help:"First word of the message."`
	B          uint64  `help:"Second word of the message."`
	memGuest
}

// Run sends.
func (c *memPacketCmd) Run(ctx context.Context, to streams) error {
	data, err := (&memData{c.Data, c.Hex}).bytes()
	if err != nil {
		return err
	}
	ctx, cancel := c.withTimeout(ctx, to)
	defer cancel()
	p := mem.Packet{
		Kind:       c.Kind,
		Segment:    c.Segment,
		Window:     c.Window,
		Generation: c.Generation,
		Offset:     c.Offset,
		Count:      c.Count,
		A:          c.A,
		B:          c.B,
		Data:       data,
	}
	return p.Send(ctx, c.Group, to.out)
}
