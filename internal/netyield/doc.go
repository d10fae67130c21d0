// Package netyield lets others go on while a goroutine has much to do. It stands for what a process with a single P
// needs (docs/design/013-hot-path.md): runtime.Gosched lets only those go on that can run already. Who waits for the
// network is looked for when nobody else can run, or every 10 ms, so that a goroutine which makes data, and yields,
// holds up everything that comes in. Yield has the network looked at, too.
//
// What the caller must do: call Yield at times, every 30 µs of work or so; it takes 1 µs. Locks that others need are
// not held meanwhile.
//
// What it does not promise: that another process gets the processor.
package netyield
