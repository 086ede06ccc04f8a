package dirstore

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/storetest"
)

// A communicator that has ended leaves no more than one empty file, as long as the process lives: a
// job makes thousands, and memory is small.
func TestEndedCommunicatorsTakeNoRoom(t *testing.T) {
	s, err := Private(t.TempDir(), "comm", "x")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	poller := agree.NewPoller(s, agree.RealTime(), agree.Local)
	const communicators, ranks = 10, 8
	inodes := func() (n int) {
		filepath.WalkDir(s.Dir(), func(string, fs.DirEntry, error) error { n++; return nil })
		return n
	}
	before := 0
	for id := range uint64(1 + communicators) {
		var members []*agree.Member
		for rank := range ranks {
			ctx, cancel := context.WithTimeout(t.Context(), agree.JoinLimit)
			m, err := agree.Join(ctx, agree.Config{
				Comm: agree.CommKey(id, ranks), Ranks: ranks, Rank: rank, Identity: fmt.Sprint(id, rank), Store: s,
				Poller: poller,
				Clock:  agree.RealTime(), Timing: agree.Local, Log: &logLines{}, Counter: &agree.Counter{},
				Own: agree.VersionID{Content: agree.DigestOf([]byte("A")), EffectDigest: "A"}, OwnContent: []byte("A"),
				Stage: func(content []byte, _ string, _ agree.Ranks) (agree.Snapshot, error) {
					return storetest.Text(content), nil
				},
			})
			cancel()
			if err != nil {
				t.Fatal(err)
			}
			members = append(members, m)
		}
		for _, m := range members {
			m.Close()
		}
		if id == 0 { // the first one makes the directories that all share
			before = inodes()
		}
	}
	if n := inodes() - before; n != communicators {
		t.Errorf("%d communicators have left %d inodes", communicators, n)
	}
}
