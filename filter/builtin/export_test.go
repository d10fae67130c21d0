package builtin

// What the tests of the package name beside what it exports.
const DefaultDeadline = defaultDeadline
