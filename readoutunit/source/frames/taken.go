package frames

// takenError says that a path is taken. Its kind is the error of the system that says so in other words.
type takenError struct {
	why  string
	kind error
}

func (e *takenError) Error() string { return e.why }
func (e *takenError) Unwrap() error { return e.kind }
