package hostlist

import (
	"strings"
	"testing"
)

func TestExpand(t *testing.T) {
	long := strings.Repeat("0", longest)
	for list, want := range map[string]string{
		"":                           "",
		"gpu1":                       "gpu1",
		"gpu[08-11]":                 "gpu08 gpu09 gpu10 gpu11",
		"a,n[1-2,07]-ib,b":           "a n1-ib n2-ib n07-ib b",
		"rack[1-2]n[3-4]":            "rack1n3 rack1n4 rack2n3 rack2n4",
		"gpu[1-":                     "gpu[1-",
		"n[1-60000][1-60000]":        "n[1-60000][1-60000]",
		"gpu[0-9223372036854775807]": "gpu[0-9223372036854775807]",
		"gpu[x]":                     "gpu[x]",
		"gpu[1-9999999999]":          "gpu[1-9999999999]",
		"gpu[2-1]":                   "gpu[2-1]",
		"gpu[1-2":                    "gpu[1-2",
		"gpu[9223372036854775808]":   "gpu[9223372036854775808]",
		"a[1-2]b[x]":                 "a[1-2]b[x]",
		"n[0" + long + "1-2]":        "n[0" + long + "1-2]",
	} {
		if got := strings.Join(Expand(list), " "); got != want {
			t.Errorf("%s: %q, want %q", list, got, want)
		}
	}
}

// The hosts of a list are bounded, not those of each part: the ones beyond are names as they stand.
func TestExpandIsBounded(t *testing.T) {
	hosts := Expand("a[1-60000],b[1-60000],c[1-2],d")
	if n := len(hosts); n != 60004 || hosts[60000] != "b[1-60000]" || hosts[n-1] != "d" {
		t.Errorf("%d hosts: %q", n, hosts[max(0, n-4):])
	}
}
