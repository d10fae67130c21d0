package conversion

// What the tests of the package name beside what it exports.
const PartialSuffix = partialSuffix
