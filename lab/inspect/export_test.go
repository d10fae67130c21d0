package inspect

// What the tests of the package name beside what it exports.
type OptionError = optionError
