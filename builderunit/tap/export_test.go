package tap

// What the tests of the package name beside what it exports.
type FullError = tooManyViewersError
