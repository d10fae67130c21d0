// Package decimal reads numbers that people write: in decimal digits, or not at all. A leading zero, 0x, 0b, 0o and _
// mean one thing to one program and another to the next: 010 is eight to one reader of YAML, and ten to the other.
package decimal
