package mesh

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// parseAddress reads 192.168.101.1/24 and 192.168.101.1/255.255.255.0.
func parseAddress(s string) (netip.Prefix, error) {
	host, mask, ok := strings.Cut(s, "/")
	if !ok {
		return netip.Prefix{}, fmt.Errorf("address %q has no mask (want as 192.168.101.1/24)", s)
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
		return netip.Prefix{}, fmt.Errorf("%s is the subnet itself, want the address of the port", s)
	}
	return p, nil
}

func maskLength(s string, addr netip.Addr) (int, error) {
	if mask, err := netip.ParseAddr(s); err == nil && mask.Is4() && addr.Is4() {
		length := 0
		for _, b := range mask.AsSlice() {
			for ; b&0x80 != 0; b <<= 1 {
				length++
			}
		}
		if p, err := addr.Prefix(length); err == nil && maskOf(p) == mask {
			return length, nil
		}
		return 0, fmt.Errorf("mask %s has a gap", s)
	}
	length, err := strconv.Atoi(s)
	if err != nil || length < 1 || length > addr.BitLen() {
		return 0, fmt.Errorf("%q is no mask of %s (allowed: 1 to %d)", s, addr, addr.BitLen())
	}
	return length, nil
}

// maskOf is the mask of an IPv4 prefix spelled out.
func maskOf(p netip.Prefix) netip.Addr {
	ones := ^uint32(0) << (32 - p.Bits())
	return netip.AddrFrom4([4]byte{byte(ones >> 24), byte(ones >> 16), byte(ones >> 8), byte(ones)})
}
