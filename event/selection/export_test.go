package selection

// What the tests of the package name beside what it exports.
const MaxRate = maxRate
