package mesh

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// parseAddress reads 192.168.101.1/24 and 192.168.101.1/255.255.255.0.
func parseAddress(s string) (netip.Prefix, error) {
	host, mask, ok := strings.Cut(s, "/")
	if !ok {
		return netip.Prefix{}, fmt.Errorf("%q has no mask (needed: one, as in 192.168.101.1/24)", s)
	}
	addr, err := netip.ParseAddr(host)
	if err != nil || addr.Zone() != "" {
		return netip.Prefix{}, fmt.Errorf("%q is no IP address", host)
	}
	length, err := maskLength(mask, addr)
	if err != nil {
		return netip.Prefix{}, err
	}
	p := netip.PrefixFrom(addr, length)
	// In larger subnets than those of two addresses the first names the subnet.
	if addr == p.Masked().Addr() && length < addr.BitLen()-1 {
		return netip.Prefix{}, fmt.Errorf("%s is the subnet itself (needed: the address of the port)", s)
	}
	return p, nil
}

func maskLength(s string, addr netip.Addr) (int, error) {
	if mask := net.ParseIP(s).To4(); mask != nil && addr.Is4() {
		length, bits := net.IPMask(mask).Size()
		switch {
		case bits == 0:
			return 0, fmt.Errorf("mask %s has a gap", s)
		case length == 0:
			return 0, fmt.Errorf("mask %s takes all addresses for one subnet", s)
		}
		return length, nil
	}
	length, err := strconv.Atoi(s)
	if err != nil || length < 1 || length > addr.BitLen() {
		return 0, fmt.Errorf("%q is no mask of %s (allowed: 1 to %d)", s, addr, addr.BitLen())
	}
	return length, nil
}
