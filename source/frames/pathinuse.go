package frames

// pathInUseError says that a path is taken. Its kind is the error of the system that says so in other words.
type pathInUseError struct {
	reason string
	kind   error
}

func (e *pathInUseError) Error() string { return e.reason }
func (e *pathInUseError) Unwrap() error { return e.kind }
