package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/abi"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// The C side numbers collectives, algorithms, protocols and versions of the ABI as package nccl does.
func TestNumbersOfC(t *testing.T) {
	for prefix, known := range map[string][]string{"COLL": nccl.Colls.Apart, "ALGO": nccl.Algos.Apart,
		"PROTO": nccl.Protos.Apart} {
		want := "enum { "
		for _, name := range known {
			want += prefix + "_" + strings.ToUpper(name) + ", "
		}
		if want += "NUM_" + prefix + "S };"; !strings.Contains(abi.Header, want) {
			t.Errorf("abi.h does not have %s", want)
		}
	}
	if want := fmt.Sprintf("enum { ABI_OLDEST = %d, ABI_NEWEST = %d };", nccl.ABINoCosts,
		nccl.NewestABI); !strings.Contains(abi.Header, want) {
		t.Errorf("abi.h does not have %s", want)
	}
	tables := regexp.MustCompile(`struct abi_tuner_v(\d+) \{ /\* NCCL (\S+) \*/`).FindAllStringSubmatch(abi.Header, -1)
	for _, m := range tables {
		since, err := nccl.ParseVersion(m[2])
		if err != nil {
			t.Fatal(err)
		}
		if v := since.ABI(nil); strconv.Itoa(v) != m[1] || (since-1).ABI(nil) != v-1 && v != nccl.ABINoCosts {
			t.Errorf("%s: NCCL %s has ABI v%d, the release before it v%d", m[0], since, v, (since - 1).ABI(nil))
		}
	}
	if len(tables) != nccl.NewestABI-nccl.ABINoCosts+1 {
		t.Errorf("abi.h has %d versions, package nccl has v%d to v%d", len(tables), nccl.ABINoCosts, nccl.NewestABI)
	}
}
