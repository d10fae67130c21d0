// Package netyield lets other goroutines run while one has much to do. A process with a single P needs it
// (docs/design/013-hot-path.md): runtime.Gosched runs only goroutines that are runnable already. The runtime polls the
// network when no goroutine is runnable, or every 10 ms. Therefore a goroutine that generates data, even if it calls
// Gosched, would delay all that arrives from the network. Yield makes the runtime poll the network too.
//
// What the caller must do: call Yield about every 30 µs of work; it takes 1 µs. The caller holds no lock meanwhile that
// other goroutines need.
//
// What it does not promise: that another process gets the processor.
package netyield
