package wording

import "testing"

func TestHideSecrets(t *testing.T) {
	for text, want := range map[string]string{
		"":                                   "",
		"/shared/a@b":                        "/shared/a@b",
		"etcd://host:2379/job":               "etcd://host:2379/job",
		"etcd://root:secret@host:2379/job":   "etcd://***@host:2379/job",
		"etcd://root:s/e@c?r#t@host:2379/j":  "etcd://***@host:2379/j",
		"redis://:secret@host":               "redis://***@host",
		"http://a:secret@x:1,http://b:c@y:1": "http://***@y:1",
	} {
		if got := HideSecrets(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
