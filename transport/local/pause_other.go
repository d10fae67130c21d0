//go:build !amd64 && !arm64

package local

func pause(uint32) {}
