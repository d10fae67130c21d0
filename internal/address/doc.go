// Package address checks the addresses at which processes listen and which they call, and binds exactly what an address
// names.
//
// The checks are pure: the configuration makes them before a run, and Listen makes the same ones. Numbers are decimal.
// A port is a number, never the name of a service.
//
//   - 0.0.0.0 is every network of the host by IPv4, [::] every one by IPv6, and no host at all (:7000) is both. Go's
//     net package would take the first two for both.
//   - Listen looks a name up once, and binds one of its addresses: the first of IPv4, if there is one. It refuses a
//     name that stands for all networks.
//   - An address that a process tells other hosts must be one that they can call: ResolveLocal checks it.
package address
