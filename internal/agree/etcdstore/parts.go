package etcdstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// etcd takes requests of up to 1.5 MiB, and a policy may be larger. Such a value
// is put in parts first; the record then names them, behind a byte with which no
// other value begins.
const (
	partBytes = 1 << 20
	mark      = 0
)

type manifest struct {
	ID    string `json:"sha256"`
	Parts int    `json:"parts"`
}

func partKey(prefix, group, id string, i int) string {
	return fmt.Sprintf("%s/part/%s/%s/%d", prefix, group, id, i)
}

// split returns what the record is to hold.
func (s *Store) split(ctx context.Context, e *epoch, value []byte) (string, error) {
	if len(value) <= partBytes && (len(value) == 0 || value[0] != mark) {
		return string(value), nil
	}
	sum := sha256.Sum256(value)
	m := manifest{ID: hex.EncodeToString(sum[:])}
	for rest := value; len(rest) > 0; m.Parts++ {
		n := min(partBytes, len(rest))
		// Whoever puts a part under this name puts the same.
		if _, _, err := s.putOnce(ctx, e, partKey(s.prefix, e.group, m.ID, m.Parts), string(rest[:n])); err != nil {
			return "", err
		}
		rest = rest[n:]
	}
	text, err := json.Marshal(m)
	return string(append([]byte{mark}, text...)), err
}

// join returns the value of a record that holds stored. part reads an etcd key.
func join(prefix, group string, stored []byte, part func(key string) (*clientv3.GetResponse, error)) ([]byte, error) {
	if len(stored) == 0 || stored[0] != mark {
		return stored, nil
	}
	var m manifest
	if err := json.Unmarshal(stored[1:], &m); err != nil {
		return nil, fmt.Errorf("etcd: a record that names its parts: %w", err)
	}
	var value bytes.Buffer
	for i := range m.Parts {
		reply, err := part(partKey(prefix, group, m.ID, i))
		if err != nil {
			return nil, err
		}
		if len(reply.Kvs) == 0 {
			return nil, fmt.Errorf("etcd: part %d of %d of a record is missing", i+1, m.Parts)
		}
		value.Write(reply.Kvs[0].Value)
	}
	return value.Bytes(), nil
}
