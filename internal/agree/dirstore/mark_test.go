package dirstore

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/storetest"
)

// Where nothing tells when a file was made, its inode has to do: for files and for links,
// before and after a move.
func TestMarkWithoutStatx(t *testing.T) {
	defer func() { statx = unix.Statx }()
	for _, missing := range []error{unix.ENOSYS, unix.EPERM} {
		statx = func(int, string, int, int, *unix.Statx_t) error { return missing }
		private, err := Private(t.TempDir(), "job", "one")
		if err != nil {
			t.Fatal(err)
		}
		defer private.Close()
		for _, s := range []*Store{open(t, t.TempDir(), "one"), private} {
			seen := map[string]bool{}
			for key, value := range map[string]string{"c/x/t/1": "", "c/x/slot/0": "rank"} {
				storetest.Put(t, s, key, value)
				before, err := s.Mark(t.Context(), key)
				if err != nil || before == "" || seen[before] {
					t.Errorf("%v: the mark of %s is %q, %v", missing, key, before, err)
				}
				seen[before] = true
				if err := s.Move(t.Context(), key, key+"-moved"); err != nil {
					t.Fatal(err)
				}
				if after, err := s.Mark(t.Context(), key+"-moved"); err != nil || after != before {
					t.Errorf("%v: the mark of %s is %q, %v, after the move, and was %q", missing, key, after,
						err, before)
				}
			}
		}
	}
}
