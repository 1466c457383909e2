package hostname

import (
	"net/netip"
	"strconv"
	"strings"
)

// EndsInNumber reports whether the last label of a name is a number, so that the name is an IPv4
// address, or is meant as one (URL standard, "ends in a number").
func EndsInNumber(name string) bool {
	last := name[strings.LastIndexByte(name, '.')+1:]
	_, ok := parseNumber(last)
	return ok || (last != "" && strings.Trim(last, "0123456789") == "")
}

// ParseIPv4 reads an IPv4 address in any spelling that resolvers know: one to four numbers, each
// decimal, octal or hexadecimal, of which the last fills the rest (URL standard, "IPv4 parser").
// The letters of name are lower case.
func ParseIPv4(name string) (netip.Addr, bool) {
	parts := strings.Split(name, ".")
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	var address uint64
	for i, part := range parts {
		n, ok := parseNumber(part)
		isLast := i == len(parts)-1
		room := uint64(1) << 8
		if isLast {
			room = 1 << (8 * (5 - len(parts)))
		}
		if !ok || n >= room {
			return netip.Addr{}, false
		}
		if isLast {
			address = address<<(8*(5-len(parts))) + n
		} else {
			address = address<<8 + n
		}
	}
	return netip.AddrFrom4([4]byte{byte(address >> 24), byte(address >> 16), byte(address >> 8), byte(address)}), true
}

// parseNumber reads a decimal, octal or hexadecimal number as C does.
func parseNumber(s string) (uint64, bool) {
	base := 10
	switch {
	case strings.HasPrefix(s, "0x"):
		base = 16
		s = s[2:]
		if s == "" {
			return 0, true // as the URL standard has it
		}
	case len(s) > 1 && s[0] == '0':
		base = 8
		s = s[1:]
	}
	n, err := strconv.ParseUint(s, base, 64)
	return n, err == nil
}
