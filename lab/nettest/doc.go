// Package nettest gives tests a separate network. Its machines are network namespaces of Linux,
// each with its own TCP. A link between two machines can lose, delay or cut off packets.
//
// The packets pass through this process: each machine's only device is a TUN device that this
// package reads and writes. Netem and nft can do the same, but not every kernel has them.
package nettest
