package frames

// pathInUseError says that a path is in use. kind is the operating system's error for the same.
type pathInUseError struct {
	reason string
	kind   error
}

func (e *pathInUseError) Error() string { return e.reason }
func (e *pathInUseError) Unwrap() error { return e.kind }
