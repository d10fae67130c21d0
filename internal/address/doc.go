// Package address checks where processes listen and whom they call, and binds no more than an address names.
//
// The checks are pure: the configuration asks them before a run, and who opens the socket asks the same ones.
// Numbers are decimal. A port is a number, never the name of a service.
//
//   - 0.0.0.0 is every network of the host by IPv4, [::] every one by IPv6, and no host at all (:7000) is both. Go's
//     net package would take the first two for both.
//   - A name is looked up once, and one of its addresses is bound: an address of IPv4 if there is one. A name that
//     stands
//     for every network is refused.
//   - An address that others get must be one that they can call: ResolveLocal looks.
package address
