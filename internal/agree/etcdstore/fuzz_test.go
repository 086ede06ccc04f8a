package etcdstore

import (
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/hostile"
)

// Whatever stands in the URL and in etcdctl's variables: no error shows a password, and what is accepted is complete.
func FuzzParse(f *testing.F) {
	f.Add("etcd://host:2379,[::1]:2379/a/../b", "name:hidden-word")
	f.Add("etcds://u:hidden-word@host:2379/", "")
	f.Add("etcd://u:hidden/@-word@host", ":")
	f.Fuzz(func(t *testing.T, url, user string) {
		for _, url := range []string{url, strings.Replace(url, "://", "://user:hidden-word@", 1)} {
			c, err := Parse(url, func(name string) string {
				switch name {
				case envUser:
					return user
				case envPassword:
					return "hidden-word"
				}
				return ""
			})
			switch {
			case err != nil:
				if strings.Contains(err.Error(), "://") && strings.Contains(err.Error(), "user:hidden-word@") {
					t.Errorf("%q: the error shows the password: %v", url, err)
				}
			case len(c.Endpoints) == 0, !strings.HasPrefix(c.Prefix, "/"), c.Prefix != "/" && strings.HasSuffix(c.Prefix, "/"),
				c.User == "" || c.Password == "":
				t.Errorf("%q: %+v", url, c)
			}
		}
	})
}

func BenchmarkWorstParse(b *testing.B) {
	hostile.Benchmark(b, func(text []byte) error {
		_, err := Parse("etcd://h:1", func(string) string { return string(text) })
		if err == nil {
			_, err = Parse(string(text), func(string) string { return "" })
		}
		return err
	},
		hostile.Text{Head: "etcd://", Unit: "h:1,"}, hostile.Text{Head: "etcd://h:1/", Unit: "a/../"},
		hostile.Text{Head: "etcd://", Unit: "@"}, hostile.Text{Head: "etcd://", Unit: "["},
	)
}
