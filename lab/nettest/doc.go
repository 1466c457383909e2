// Package nettest gives tests a network of their own: machines that are network namespaces of
// Linux, each with its own TCP, and between each two of them a way that loses, delays or cuts off
// what is sent over it.
//
// The packets pass through this process, as each machine's only device is a TUN device that is
// read and written here: netem and nft, which could do the same, aren't in every kernel.
package nettest
