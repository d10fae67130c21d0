// Package decimal reads numbers that people write, in decimal digits alone. It refuses a leading zero, 0x, 0b, 0o and
// _, which programs read differently: 010 is eight to one reader of YAML, and ten to another.
package decimal
